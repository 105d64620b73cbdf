// Stands in for libnccl 2, within one process: broadcasts move true contents, everything else moves and computes
// nothing. Ranks of several processes are not offered.
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "standin.hpp"

using namespace ration::standin;

namespace ration::standin {

constexpr int kSuccess = 0, kInvalidArgument = 4, kInvalidUsage = 5;

int not_offered(const char* function) noexcept {
  missing = function;
  return kInvalidUsage;
}

namespace {

/// One broadcast, from its first rank's call to its last one's.
struct Broadcast {
  bool sent = false;
  std::vector<char> contents;
  std::vector<void*> waiting;  // where ranks that came before the root want it
  int ranks = 0;               // that have come
};

/// The communicators that talk to each other: of one ncclCommInitAll(), or of one unique id.
struct Clique {
  std::mutex mutex;
  int size = 0;
  std::map<std::uint64_t, Broadcast> broadcasts;  // by number: the k-th of each rank belong together
};
struct Communicator {
  std::shared_ptr<Clique> clique;
  int rank = 0, device = 0;
  std::uint64_t broadcasts = 0;
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

struct Request {
  Communicator* communicator;
  const void* from;
  void* to;
  std::size_t bytes;
  int root;
};

thread_local int depth = 0;
thread_local std::vector<Request> requests;

void read(std::vector<char>& into, const void* from) {
  driver<cuda::cuMemcpyDtoH_v2_t>("cuMemcpyDtoH_v2")(into.data(), reinterpret_cast<cuda::CUdeviceptr>(from),
                                                     into.size());
}
void write(void* to, const std::vector<char>& contents) {
  driver<cuda::cuMemcpyHtoD_v2_t>("cuMemcpyHtoD_v2")(reinterpret_cast<cuda::CUdeviceptr>(to), contents.data(),
                                                     contents.size());
}

void serve(const Request& request) {
  Communicator& communicator = *request.communicator;
  Clique& clique = *communicator.clique;
  const std::lock_guard guard(clique.mutex);
  const std::uint64_t number = communicator.broadcasts++;
  Broadcast& broadcast = clique.broadcasts[number];
  if (communicator.rank == request.root) {
    broadcast.contents.resize(request.bytes);
    read(broadcast.contents, request.from);
    broadcast.sent = true;
    for (void* to : broadcast.waiting) write(to, broadcast.contents);
    if (request.to != request.from) write(request.to, broadcast.contents);
  } else if (broadcast.sent) {
    write(request.to, broadcast.contents);
  } else {
    broadcast.waiting.push_back(request.to);
  }
  if (++broadcast.ranks == clique.size) clique.broadcasts.erase(number);
}

void serve_all() {
  for (const Request& request : std::exchange(requests, {})) serve(request);
}

int join(Handle* out, const std::shared_ptr<Clique>& clique, int rank, int device) {
  *out = new Communicator{clique, rank, device, 0};
  return kSuccess;
}

}  // namespace
}  // namespace ration::standin

STANDIN int ncclGetVersion(int* out) {
  *out = 29900;
  return kSuccess;
}
STANDIN const char* ncclGetErrorString(int status) {
  return status == kSuccess           ? "no error"
         : missing != nullptr         ? missing
         : status == kInvalidArgument ? "invalid argument"
                                      : "invalid usage";
}
STANDIN const char* ncclGetLastError(Handle) {
  return missing == nullptr ? "" : "not simulated by ration (see: ration help simulated)";
}
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
    return not_offered("ncclCommInitRank with ranks in several processes");
  ration::cuda::CUdevice device = 0;
  driver<ration::cuda::cuCtxGetDevice_t>("cuCtxGetDevice")(&device);
  const std::lock_guard guard(identities_mutex);
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
  if (--depth == 0) serve_all();
  return kSuccess;
}
STANDIN int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, Handle communicator,
                          Handle) {
  requests.push_back({static_cast<Communicator*>(communicator), from, to, count * element_bytes(type), root});
  if (depth == 0) serve_all();
  return kSuccess;
}
STANDIN int ncclBcast(void* buffer, std::size_t count, int type, int root, Handle communicator, Handle stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, communicator, stream);
}
