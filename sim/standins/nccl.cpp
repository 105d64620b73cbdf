// Stands in for libnccl 2, within one process: broadcasts, gathers and sends move true contents, reductions compute
// nothing. Ranks of several processes are not offered.
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
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

struct Communicator;
/// The communicators of one ncclCommInitAll().
struct Clique {
  std::vector<Communicator*> members;
};
struct Communicator {
  std::shared_ptr<Clique> clique;
  int rank = 0, device = 0;
};

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

struct Broadcast {
  Communicator* communicator;
  const void* from;
  void* to;
  std::size_t bytes;
  int root;
};

thread_local int depth = 0;
thread_local std::vector<Broadcast> waiting;

void copy(void* to, const void* from, std::size_t bytes) {
  auto* move = driver<cuda::cuMemcpy_t>("cuMemcpy");
  if (to != from && move != nullptr)
    move(reinterpret_cast<cuda::CUdeviceptr>(to), reinterpret_cast<cuda::CUdeviceptr>(from), bytes);
}

/// The k-th broadcast of each rank of a clique belong together.
void run_waiting() {
  std::map<Clique*, std::map<int, std::vector<Broadcast>>> by_rank;
  for (const Broadcast& each : waiting)
    by_rank[each.communicator->clique.get()][each.communicator->rank].push_back(each);
  for (auto& [clique, ranks] : by_rank) {
    for (auto& [rank, list] : ranks) {
      for (std::size_t place = 0; place < list.size(); ++place) {
        const auto root = ranks.find(list[place].root);
        if (root != ranks.end() && place < root->second.size())
          copy(list[place].to, root->second[place].from, list[place].bytes);
      }
    }
  }
  waiting.clear();
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
STANDIN int ncclGetUniqueId(void* out) {
  std::memset(out, 0, 128);
  return kSuccess;
}
STANDIN int ncclCommInitAll(Handle* out, int count, const int* devices) {
  if (out == nullptr || count < 1) return kInvalidArgument;
  auto clique = std::make_shared<Clique>();
  for (int rank = 0; rank < count; ++rank) {
    auto* communicator = new Communicator{clique, rank, devices != nullptr ? devices[rank] : rank};
    clique->members.push_back(communicator);
    out[rank] = communicator;
  }
  return kSuccess;
}
struct UniqueId {
  char bytes[128];
};
STANDIN int ncclCommInitRank(Handle* out, int count, UniqueId, int) {
  return count == 1 ? ncclCommInitAll(out, 1, nullptr) : not_offered("ncclCommInitRank with more than one rank");
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
  *out = static_cast<int>(static_cast<Communicator*>(handle)->clique->members.size());
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
  if (--depth == 0) run_waiting();
  return kSuccess;
}
STANDIN int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, Handle communicator,
                          Handle) {
  waiting.push_back({static_cast<Communicator*>(communicator), from, to, count * element_bytes(type), root});
  if (depth == 0) run_waiting();
  return kSuccess;
}
STANDIN int ncclBcast(void* buffer, std::size_t count, int type, int root, Handle communicator, Handle stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, communicator, stream);
}
