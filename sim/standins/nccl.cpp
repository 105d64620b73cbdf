// Stands in for libnccl 2, within one process: what only moves contents moves them, and they have arrived when the last
// of both sides has called; reductions compute nothing. Ranks of several processes are not offered.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "standin.hpp"

using namespace ration::standin;

namespace ration::standin {

constexpr int kSuccess = 0, kInvalidArgument = 4, kInvalidUsage = 5;
constexpr int kNotOffered = kInvalidUsage;  // NCCL has no word of its own for it

namespace {

enum class Kind { kBroadcast, kAllGather, kAllToAll, kGather, kScatter };

struct Communicator;

/// What one rank brings to a collective.
struct Part {
  Communicator* communicator = nullptr;
  Kind kind = Kind::kBroadcast;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;  // of one rank's block
  int root = 0;
};
/// A part that has come, with what was in its source then: its rank may write there again at once.
struct Arrived {
  Part part;
  int rank = 0;
  std::vector<char> contents;
};
struct Receiver {
  void* to;
  std::size_t bytes;
};

/// The communicators that talk to each other: of one ncclCommInitAll(), or of one unique id.
struct Clique {
  std::mutex mutex;
  int size = 0;
  std::map<std::uint64_t, std::vector<Arrived>> collectives;  // by number: the k-th of each rank belong together
  std::map<std::pair<int, int>, std::deque<std::vector<char>>> sent;  // by sender and receiver
  std::map<std::pair<int, int>, std::deque<Receiver>> waiting;
};
struct Communicator {
  std::shared_ptr<Clique> clique;
  int rank = 0, device = 0;
  std::uint64_t collectives = 0;
};

struct UniqueId {
  char bytes[128];
};
/// What an id of ours holds.
struct Identity {
  int process;
  std::uint64_t number;
  bool operator<(const Identity& other) const { return number < other.number; }
};
std::mutex identities_mutex;
std::map<Identity, std::weak_ptr<Clique>> identities;
std::uint64_t last_identity = 0;

std::size_t element_bytes(int type) {
  switch (type) {
    case 0:   // int8
    case 1:   // uint8
    case 10:  // fp8
    case 11:
      return 1;
    case 6:  // half
    case 9:  // bfloat16
      return 2;
    case 4:  // int64
    case 5:
    case 8:  // double
      return 8;
    default:
      return 4;
  }
}

thread_local int depth = 0;
thread_local std::vector<std::function<void()>> group;  // what is done when the thread's group ends

std::vector<char> read(const void* from, std::size_t bytes) {
  std::vector<char> contents(bytes);
  driver<cuda::cuMemcpyDtoH_v2_t>("cuMemcpyDtoH_v2")(contents.data(), reinterpret_cast<cuda::CUdeviceptr>(from), bytes);
  return contents;
}
void write(void* to, std::size_t block, const char* contents, std::size_t bytes) {
  driver<cuda::cuMemcpyHtoD_v2_t>("cuMemcpyHtoD_v2")(reinterpret_cast<cuda::CUdeviceptr>(to) + block * bytes, contents,
                                                     bytes);
}

/// How many blocks of its own a rank sends in all.
std::size_t blocks_sent(const Part& part, int rank, int size) {
  switch (part.kind) {
    case Kind::kBroadcast:
      return rank == part.root ? 1 : 0;
    case Kind::kScatter:
      return rank == part.root ? static_cast<std::size_t>(size) : 0;
    case Kind::kAllToAll:
      return static_cast<std::size_t>(size);
    case Kind::kAllGather:
    case Kind::kGather:
      break;
  }
  return 1;
}

/// What goes from one rank to another, or to itself.
void move(const Arrived& source, const Arrived& target) {
  if (source.contents.empty()) return;
  const std::size_t bytes = source.part.bytes;
  const char* own = source.contents.data();
  const auto from = static_cast<std::size_t>(source.rank), to = static_cast<std::size_t>(target.rank);
  switch (source.part.kind) {
    case Kind::kBroadcast:
      return write(target.part.to, 0, own, bytes);
    case Kind::kScatter:
      return write(target.part.to, 0, own + to * bytes, bytes);
    case Kind::kAllToAll:
      return write(target.part.to, from, own + to * bytes, bytes);
    case Kind::kAllGather:
      return write(target.part.to, from, own, bytes);
    case Kind::kGather:
      if (target.rank == source.part.root) write(target.part.to, from, own, bytes);
  }
}

void arrive(const Part& part) {
  Communicator& communicator = *part.communicator;
  Clique& clique = *communicator.clique;
  const std::lock_guard guard(clique.mutex);
  const std::uint64_t number = communicator.collectives++;
  std::vector<Arrived>& ranks = clique.collectives[number];
  ranks.push_back(
      {part, communicator.rank, read(part.from, part.bytes * blocks_sent(part, communicator.rank, clique.size))});
  for (const Arrived& other : ranks) {
    move(ranks.back(), other);
    if (&other != &ranks.back()) move(other, ranks.back());
  }
  if (static_cast<int>(ranks.size()) == clique.size) clique.collectives.erase(number);
}

int enqueue(Handle handle, int peer, std::function<void()> work) {
  const auto* communicator = static_cast<Communicator*>(handle);
  if (communicator == nullptr || peer < 0 || peer >= communicator->clique->size) return kInvalidArgument;
  group.push_back(std::move(work));
  if (depth == 0) {
    for (const auto& each : std::exchange(group, {})) each();
  }
  return kSuccess;
}

int collective(Kind kind, const void* from, void* to, std::size_t count, int type, int root, Handle handle) {
  const Part part{static_cast<Communicator*>(handle), kind, from, to, count * element_bytes(type), root};
  return enqueue(handle, root, [part] { arrive(part); });
}

int join(Handle* out, const std::shared_ptr<Clique>& clique, int rank, int device) {
  *out = new Communicator{clique, rank, device};
  return kSuccess;
}

}  // namespace

Handle stream_of(Handle) { return nullptr; }  // its calls are told a stream

}  // namespace ration::standin

STANDIN int ncclGetVersion(int* out) {
  *out = 29900;
  return kSuccess;
}
STANDIN const char* ncclGetErrorString(int status) {
  return status == kSuccess                            ? "no error"
         : status == kNotOffered && missing != nullptr ? missing_text()
         : status == kInvalidArgument                  ? "invalid argument"
                                                       : "invalid usage";
}
STANDIN const char* ncclGetLastError(Handle) { return missing == nullptr ? "" : missing_text(); }
STANDIN int ncclGetUniqueId(UniqueId* out) {
  if (out == nullptr) return kInvalidArgument;
  const std::lock_guard guard(identities_mutex);
  const Identity identity{::getpid(), ++last_identity};
  *out = {};
  std::memcpy(out->bytes, &identity, sizeof identity);
  return kSuccess;
}
STANDIN int ncclCommInitAll(Handle* out, int count, const int* devices) {
  if (out == nullptr || count < 1) return kInvalidArgument;
  auto clique = std::make_shared<Clique>();
  clique->size = count;
  for (int rank = 0; rank < count; ++rank)
    (void)join(&out[rank], clique, rank, devices != nullptr ? devices[rank] : rank);
  return kSuccess;
}
STANDIN int ncclCommInitRank(Handle* out, int count, UniqueId id, int rank) {
  if (out == nullptr || count < 1 || rank < 0 || rank >= count) return kInvalidArgument;
  Identity identity{};
  std::memcpy(&identity, id.bytes, sizeof identity);
  if (count > 1 && identity.process != ::getpid())
    return not_offered("ncclCommInitRank with ranks in several processes", kNotOffered);
  ration::cuda::CUdevice device = 0;
  driver<ration::cuda::cuCtxGetDevice_t>("cuCtxGetDevice")(&device);
  const std::lock_guard guard(identities_mutex);
  std::erase_if(identities, [](const auto& entry) { return entry.second.expired(); });
  auto clique = identities[identity].lock();
  if (clique == nullptr) {
    clique = std::make_shared<Clique>();
    clique->size = count;
    identities[identity] = clique;
  }
  return join(out, clique, rank, device);
}
STANDIN int ncclCommInitRankConfig(Handle* out, int count, UniqueId id, int rank, void*) {
  return ncclCommInitRank(out, count, id, rank);
}
STANDIN int ncclCommDestroy(Handle handle) {
  delete static_cast<Communicator*>(handle);
  return kSuccess;
}
STANDIN int ncclCommAbort(Handle handle) { return ncclCommDestroy(handle); }
STANDIN int ncclCommFinalize(Handle) { return kSuccess; }
STANDIN int ncclCommCount(Handle handle, int* out) {
  *out = static_cast<Communicator*>(handle)->clique->size;
  return kSuccess;
}
STANDIN int ncclCommUserRank(Handle handle, int* out) {
  *out = static_cast<Communicator*>(handle)->rank;
  return kSuccess;
}
STANDIN int ncclCommCuDevice(Handle handle, int* out) {
  *out = static_cast<Communicator*>(handle)->device;
  return kSuccess;
}
STANDIN int ncclCommGetAsyncError(Handle, int* out) {
  *out = kSuccess;
  return kSuccess;
}
STANDIN int ncclGroupStart() {
  ++depth;
  return kSuccess;
}
STANDIN int ncclGroupEnd() {
  if (depth == 0) return kInvalidUsage;
  if (--depth > 0) return kSuccess;
  for (const auto& each : std::exchange(group, {})) each();
  return kSuccess;
}
STANDIN int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, Handle communicator,
                          Handle) {
  return collective(Kind::kBroadcast, from, to, count, type, root, communicator);
}
STANDIN int ncclAllGather(const void* from, void* to, std::size_t count, int type, Handle communicator, Handle) {
  return collective(Kind::kAllGather, from, to, count, type, 0, communicator);
}
STANDIN int ncclAlltoAll(const void* from, void* to, std::size_t count, int type, Handle communicator, Handle) {
  return collective(Kind::kAllToAll, from, to, count, type, 0, communicator);
}
STANDIN int ncclGather(const void* from, void* to, std::size_t count, int type, int root, Handle communicator, Handle) {
  return collective(Kind::kGather, from, to, count, type, root, communicator);
}
STANDIN int ncclScatter(const void* from, void* to, std::size_t count, int type, int root, Handle communicator,
                        Handle) {
  return collective(Kind::kScatter, from, to, count, type, root, communicator);
}
STANDIN int ncclSend(const void* from, std::size_t count, int type, int peer, Handle handle, Handle) {
  const std::size_t bytes = count * element_bytes(type);
  return enqueue(handle, peer, [=] {
    auto* own = static_cast<Communicator*>(handle);
    const std::lock_guard guard(own->clique->mutex);
    auto contents = read(from, bytes);
    auto& waiting = own->clique->waiting[{own->rank, peer}];
    if (waiting.empty()) return own->clique->sent[{own->rank, peer}].push_back(std::move(contents));
    write(waiting.front().to, 0, contents.data(), std::min(bytes, waiting.front().bytes));
    waiting.pop_front();
  });
}
STANDIN int ncclRecv(void* to, std::size_t count, int type, int peer, Handle handle, Handle) {
  const std::size_t bytes = count * element_bytes(type);
  return enqueue(handle, peer, [=] {
    auto* own = static_cast<Communicator*>(handle);
    const std::lock_guard guard(own->clique->mutex);
    auto& sent = own->clique->sent[{peer, own->rank}];
    if (sent.empty()) return own->clique->waiting[{peer, own->rank}].push_back({to, bytes});
    write(to, 0, sent.front().data(), std::min(bytes, sent.front().size()));
    sent.pop_front();
  });
}
STANDIN int ncclBcast(void* buffer, std::size_t count, int type, int root, Handle communicator, Handle stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, communicator, stream);
}
