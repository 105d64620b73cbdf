// The stand-in for libnccl 2, between the ranks of one machine. Calls that only move contents move them; reductions
// leave each rank with its own part. A call that needs the contents of other ranks waits for the contents itself,
// whereas NVIDIA's library makes the stream wait.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "mailbox.hpp"
#include "standin.hpp"

using namespace ration::standin;

namespace ration::standin {

constexpr int kSuccess = 0, kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6;
constexpr int kNotOffered = kInvalidUsage;  // NCCL has no error for this

namespace {

struct Communicator {
  std::shared_ptr<Mailbox> mailbox;
  int rank = 0, ranks = 0, device = 0;
  std::atomic<bool> aborted{false};
};
/// The object behind a program's handle. Waiting calls keep the communicator alive while another thread destroys it.
using Owned = std::shared_ptr<Communicator>;
Owned& of(Handle handle) { return *static_cast<Owned*>(handle); }

struct UniqueId {
  char bytes[128];
};
std::mutex made_mutex;
std::map<Mailbox::Address, std::shared_ptr<Mailbox>>& made =
    *new std::map<Mailbox::Address, std::shared_ptr<Mailbox>>;  // mailboxes of ids that some ranks have not joined yet

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

/// A call of one rank. All calls of a group are posted before the first waits for another rank.
struct Work {
  Owned own;
  std::function<bool(Communicator&)> post, receive;
};
thread_local int depth = 0;
thread_local std::vector<Work> group;

int finish_group() {
  int status = kSuccess;
  const std::vector<Work> works = std::exchange(group, {});
  for (const auto step : {&Work::post, &Work::receive}) {
    for (const Work& work : works) {
      if (status == kSuccess && work.*step && !(work.*step)(*work.own)) status = kRemoteError;
    }
  }
  return status;
}

int enqueue(Handle handle, int peer, std::function<bool(Communicator&)> post,
            std::function<bool(Communicator&)> receive) {
  if (handle == nullptr || peer < 0 || peer >= of(handle)->ranks) return kInvalidArgument;
  group.push_back({of(handle), std::move(post), std::move(receive)});
  return depth == 0 ? finish_group() : kSuccess;
}

bool post(Communicator& own, int to, const char* from, std::size_t bytes) {
  cuda::CUresult copied = cuda::CUDA_SUCCESS;
  const auto fill = [&](void* contents) {
    copied =
        driver<cuda::cuMemcpyDtoH_v2_t>("cuMemcpyDtoH_v2")(contents, reinterpret_cast<cuda::CUdeviceptr>(from), bytes);
  };
  return own.mailbox->post(own.rank, to, bytes, fill, own.aborted) && copied == cuda::CUDA_SUCCESS;
}

bool receive(Communicator& own, int from, char* to, std::size_t room) {
  cuda::CUresult copied = cuda::CUDA_SUCCESS;
  const auto use = [&](const void* contents, std::size_t bytes) {
    copied = driver<cuda::cuMemcpyHtoD_v2_t>("cuMemcpyHtoD_v2")(reinterpret_cast<cuda::CUdeviceptr>(to), contents,
                                                                std::min(bytes, room));
  };
  return own.mailbox->receive(from, own.rank, use, own.aborted) && copied == cuda::CUDA_SUCCESS;
}

/// The data flow of a collective: which block of which sender goes to which block of which receiver.
struct Collective {
  enum Needs { kEachOfEach, kEachOfRoot, kRootOfEach } needs;
  enum Block { kFirst, kOfSender, kOfReceiver } source, target;
  bool reduces = false;  // true: each rank gets only its own contents

  [[nodiscard]] bool needed(int from, int to, int root) const {
    return needs == kEachOfEach || (needs == kEachOfRoot ? from : to) == root;
  }
  static std::size_t offset(Block block, int from, int to, std::size_t bytes) {
    return block == kFirst ? 0 : static_cast<std::size_t>(block == kOfSender ? from : to) * bytes;
  }
};
using C = Collective;
constexpr Collective kBroadcast{C::kEachOfRoot, C::kFirst, C::kFirst},
    kScatter{C::kEachOfRoot, C::kOfReceiver, C::kFirst}, kGather{C::kRootOfEach, C::kFirst, C::kOfSender},
    kAllGather{C::kEachOfEach, C::kFirst, C::kOfSender}, kAllToAll{C::kEachOfEach, C::kOfReceiver, C::kOfSender},
    kReduce{C::kRootOfEach, C::kFirst, C::kFirst, true}, kAllReduce{C::kEachOfEach, C::kFirst, C::kFirst, true},
    kReduceScatter{C::kEachOfEach, C::kOfReceiver, C::kFirst, true};

int collective(const Collective& kind, const void* from, void* to, std::size_t count, int type, int root,
               Handle handle) {
  const std::size_t bytes = count * element_bytes(type);
  return enqueue(
      handle, root,
      [=](Communicator& own) {
        for (int peer = 0; peer < own.ranks; ++peer) {
          const std::size_t sent = !kind.reduces || peer == own.rank ? bytes : 0;
          if (kind.needed(own.rank, peer, root) &&
              !post(own, peer, static_cast<const char*>(from) + C::offset(kind.source, own.rank, peer, bytes), sent))
            return false;
        }
        return true;
      },
      [=](Communicator& own) {
        for (int peer = 0; peer < own.ranks; ++peer) {
          if (kind.needed(peer, own.rank, root) &&
              !receive(own, peer, static_cast<char*>(to) + C::offset(kind.target, peer, own.rank, bytes), bytes))
            return false;
        }
        return true;
      });
}

/// Joins a communicator. `*out` is valid when this returns, but all ranks have joined only when the group of calls
/// ends.
int join(Handle* out, std::shared_ptr<Mailbox> mailbox, int rank, int ranks, int device) {
  if (out == nullptr || rank < 0 || rank >= ranks) return kInvalidArgument;
  if (mailbox == nullptr || !mailbox->join(rank, ranks)) return kSystemError;
  auto own = std::make_shared<Communicator>();
  own->mailbox = std::move(mailbox);
  own->rank = rank, own->ranks = ranks, own->device = device;
  *out = new Owned(own);
  return enqueue(*out, rank, nullptr, [](Communicator& joined) {
    if (!joined.mailbox->wait_for_all(joined.aborted)) return false;
    const std::lock_guard guard(made_mutex);
    made.erase(joined.mailbox->address());
    return true;
  });
}

int current_device() {
  cuda::CUdevice device = 0;
  driver<cuda::cuCtxGetDevice_t>("cuCtxGetDevice")(&device);
  return device;
}

/// A rank's request in a split of the communicator.
struct SplitRequest {
  int color, key, rank;
  Mailbox::Address address;  // the mailbox of the new part, if this rank is its first member
  bool operator<(const SplitRequest& other) const { return std::pair(key, rank) < std::pair(other.key, other.rank); }
};

}  // namespace

Handle stream_of(Handle) { return nullptr; }  // calls take the stream as an argument

}  // namespace ration::standin

STANDIN int ncclGetVersion(int* out) {
  *out = 29900;
  return kSuccess;
}
STANDIN const char* ncclGetErrorString(int status) {
  if (status == kNotOffered && missing != nullptr) return missing_text();
  static const std::map<int, const char*> texts{{kSuccess, "no error"},
                                                {kSystemError, "no memory, or the process that made the id has ended"},
                                                {kInvalidArgument, "invalid argument"},
                                                {kRemoteError, "another rank has ended, or this one was aborted"}};
  const auto text = texts.find(status);
  return text == texts.end() ? "invalid usage" : text->second;
}
STANDIN const char* ncclGetLastError(Handle) { return missing == nullptr ? "" : missing_text(); }
STANDIN int ncclGetUniqueId(UniqueId* out) {
  if (out == nullptr) return kInvalidArgument;
  auto mailbox = Mailbox::make();
  if (mailbox == nullptr) return kSystemError;
  const Mailbox::Address address = mailbox->address();
  *out = {};
  std::memcpy(out->bytes, &address, sizeof address);
  const std::lock_guard guard(made_mutex);
  made[address] = std::move(mailbox);
  return kSuccess;
}
STANDIN int ncclCommInitAll(Handle* out, int count, const int* devices) {
  UniqueId id;
  if (out == nullptr || count < 1) return kInvalidArgument;
  if (const int status = ncclGetUniqueId(&id); status != kSuccess) return status;
  Mailbox::Address address{};
  std::memcpy(&address, id.bytes, sizeof address);
  int status = kSuccess;
  ++depth;
  for (int rank = 0; rank < count && status == kSuccess; ++rank)
    status = join(&out[rank], Mailbox::open(address), rank, count, devices != nullptr ? devices[rank] : rank);
  if (--depth == 0 && status == kSuccess) status = finish_group();
  return status;
}
STANDIN int ncclCommInitRank(Handle* out, int count, UniqueId id, int rank) {
  Mailbox::Address address{};
  std::memcpy(&address, id.bytes, sizeof address);
  return join(out, Mailbox::open(address), rank, count, current_device());
}
STANDIN int ncclCommInitRankConfig(Handle* out, int count, UniqueId id, int rank, void*) {
  return ncclCommInitRank(out, count, id, rank);
}
STANDIN int ncclCommInitRankScalable(Handle* out, int count, int rank, int ids, UniqueId* id, void*) {
  return ids < 1 || id == nullptr ? kInvalidArgument : ncclCommInitRank(out, count, *id, rank);
}
STANDIN int ncclCommSplit(Handle handle, int color, int key, Handle* out, void*) {
  if (handle == nullptr || out == nullptr) return kInvalidArgument;
  const Owned own = of(handle);
  const auto mailbox = Mailbox::make();
  if (mailbox == nullptr) return kSystemError;
  const SplitRequest request{color, key, own->rank, mailbox->address()};
  std::vector<SplitRequest> members;
  *out = nullptr;
  for (int peer = 0; peer < own->ranks; ++peer) {
    const auto tell = [&](void* contents) { std::memcpy(contents, &request, sizeof request); };
    if (!own->mailbox->post(own->rank, peer, sizeof request, tell, own->aborted)) return kRemoteError;
  }
  for (int peer = 0; peer < own->ranks; ++peer) {
    const auto hear = [&](const void* contents, std::size_t) {
      SplitRequest received{};
      std::memcpy(&received, contents, sizeof received);
      if (received.color == color) members.push_back(received);
    };
    if (!own->mailbox->receive(peer, own->rank, hear, own->aborted)) return kRemoteError;
  }
  if (color < 0) return kSuccess;  // in no part of the split
  std::sort(members.begin(), members.end());
  if (members.front().rank == own->rank) {
    const std::lock_guard guard(made_mutex);
    made[request.address] = mailbox;
  }
  const auto self =
      std::find_if(members.begin(), members.end(), [&](const SplitRequest& w) { return w.rank == own->rank; });
  return join(out, Mailbox::open(members.front().address), static_cast<int>(self - members.begin()),
              static_cast<int>(members.size()), own->device);
}
STANDIN int ncclCommAbort(Handle handle) {
  if (handle == nullptr) return kSuccess;
  of(handle)->aborted = true;
  of(handle)->mailbox->ring();
  delete static_cast<Owned*>(handle);
  return kSuccess;
}
STANDIN int ncclCommDestroy(Handle handle) {
  delete static_cast<Owned*>(handle);
  return kSuccess;
}
STANDIN int ncclCommFinalize(Handle) { return kSuccess; }
STANDIN int ncclCommCount(Handle handle, int* out) {
  *out = of(handle)->ranks;
  return kSuccess;
}
STANDIN int ncclCommUserRank(Handle handle, int* out) {
  *out = of(handle)->rank;
  return kSuccess;
}
STANDIN int ncclCommCuDevice(Handle handle, int* out) {
  *out = of(handle)->device;
  return kSuccess;
}
STANDIN int ncclCommGetAsyncError(Handle, int* out) {
  *out = kSuccess;
  return kSuccess;
}
STANDIN int ncclMemAlloc(void** out, std::size_t bytes) {
  *out = reinterpret_cast<void*>(take(bytes));
  return *out != nullptr || bytes == 0 ? kSuccess : 1;  // the error "unhandled CUDA error"
}
STANDIN int ncclMemFree(void* address) {
  give(reinterpret_cast<ration::cuda::CUdeviceptr>(address));
  return kSuccess;
}
STANDIN int ncclGroupStart() {
  ++depth;
  return kSuccess;
}
STANDIN int ncclGroupEnd() {
  if (depth == 0) return kInvalidUsage;
  return --depth > 0 ? kSuccess : finish_group();
}
STANDIN int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, Handle communicator,
                          Handle) {
  return collective(kBroadcast, from, to, count, type, root, communicator);
}
STANDIN int ncclAllGather(const void* from, void* to, std::size_t count, int type, Handle communicator, Handle) {
  return collective(kAllGather, from, to, count, type, 0, communicator);
}
STANDIN int ncclAlltoAll(const void* from, void* to, std::size_t count, int type, Handle communicator, Handle) {
  return collective(kAllToAll, from, to, count, type, 0, communicator);
}
STANDIN int ncclGather(const void* from, void* to, std::size_t count, int type, int root, Handle communicator, Handle) {
  return collective(kGather, from, to, count, type, root, communicator);
}
STANDIN int ncclScatter(const void* from, void* to, std::size_t count, int type, int root, Handle communicator,
                        Handle) {
  return collective(kScatter, from, to, count, type, root, communicator);
}
STANDIN int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int, Handle communicator, Handle) {
  return collective(kAllReduce, from, to, count, type, 0, communicator);
}
STANDIN int ncclReduce(const void* from, void* to, std::size_t count, int type, int, int root, Handle communicator,
                       Handle) {
  return collective(kReduce, from, to, count, type, root, communicator);
}
STANDIN int ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int, Handle communicator,
                              Handle) {
  return collective(kReduceScatter, from, to, count, type, 0, communicator);
}
STANDIN int ncclSend(const void* from, std::size_t count, int type, int peer, Handle communicator, Handle) {
  const std::size_t bytes = count * element_bytes(type);
  return enqueue(
      communicator, peer, [=](Communicator& own) { return post(own, peer, static_cast<const char*>(from), bytes); },
      nullptr);
}
STANDIN int ncclRecv(void* to, std::size_t count, int type, int peer, Handle communicator, Handle) {
  const std::size_t bytes = count * element_bytes(type);
  return enqueue(communicator, peer, nullptr,
                 [=](Communicator& own) { return receive(own, peer, static_cast<char*>(to), bytes); });
}
STANDIN int ncclBcast(void* buffer, std::size_t count, int type, int root, Handle communicator, Handle stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, communicator, stream);
}
