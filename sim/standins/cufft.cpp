// The stand-in for libcufft: plans with their workspaces.
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "standin.hpp"

using namespace ration::standin;

namespace ration::standin {

constexpr int kSuccess = 0, kInvalidPlan = 1, kAllocFailed = 2, kInvalidType = 3, kInvalidValue = 4, kSetupFailed = 7,
              kInvalidSize = 8;

namespace {

struct Plan {
  bool takes_its_own = true;  // true if the plan takes its workspace itself; false if the program provides it
  std::size_t workspace_bytes = 0;
  cuda::CUdeviceptr workspace = 0;
  Handle stream = nullptr;
};
std::mutex mutex;
std::map<int, Plan>& plans = *new std::map<int, Plan>;
int last_plan = 0;

/// Returns true if the size is a product of 2, 3, 5 and 7, which NVIDIA's documentation calls highly optimized.
bool smooth(std::int64_t size) {
  for (const int factor : {2, 3, 5, 7})
    while (size % factor == 0) size /= factor;
  return size == 1;
}

/// Returns the size of a plan's workspace. NVIDIA's documentation ("Fourier Transform Setup") names two bounds: as many
/// complex elements as are transformed, and 8 times that. It is assumed that sizes with large prime factors need the
/// upper bound.
std::size_t workspace_bytes(const std::vector<std::int64_t>& sizes, std::int64_t batch, std::size_t element_bytes) {
  bool every_one_smooth = true;
  auto elements = static_cast<std::size_t>(batch);
  for (const std::int64_t size : sizes) {
    every_one_smooth = every_one_smooth && smooth(size);
    elements *= static_cast<std::size_t>(size);
  }
  return elements * element_bytes * (every_one_smooth ? 1 : 8);
}

/// Returns the bytes of a complex element of a cufftType, or 0 if there is no such type.
std::size_t bytes_of_type(int type) {
  switch (type) {
    case 0x29:
    case 0x2a:
    case 0x2c:
      return 8;
    case 0x69:
    case 0x6a:
    case 0x6c:
      return 16;
    default:
      return 0;
  }
}
/// Returns the bytes of a complex element of a cudaDataType, or 0 if there is no such type.
std::size_t bytes_of_data_type(int type) {
  switch (type) {
    case 2:  // halves
    case 6:
    case 14:
    case 15:
      return 4;
    case 0:  // floats
    case 4:
      return 8;
    case 1:  // doubles
    case 5:
      return 16;
    default:
      return 0;
  }
}

int measure(const std::vector<std::int64_t>& sizes, std::int64_t batch, std::size_t element_bytes, std::size_t* out) {
  if (element_bytes == 0) return kInvalidType;
  if (out == nullptr || sizes.empty()) return kInvalidValue;
  if (batch < 1) return kInvalidSize;
  for (const std::int64_t size : sizes)
    if (size < 1) return kInvalidSize;
  *out = workspace_bytes(sizes, batch, element_bytes);
  return kSuccess;
}

int make(int handle, const std::vector<std::int64_t>& sizes, std::int64_t batch, std::size_t element_bytes,
         std::size_t* out) {
  std::size_t bytes = 0;
  if (const int status = measure(sizes, batch, element_bytes, &bytes); status != kSuccess) return status;
  if (!has_context()) return kSetupFailed;
  const std::lock_guard guard(mutex);
  const auto plan = plans.find(handle);
  if (plan == plans.end() || plan->second.workspace_bytes != 0) return kInvalidPlan;
  if (plan->second.takes_its_own) {
    plan->second.workspace = take(bytes);
    if (plan->second.workspace == 0) return kAllocFailed;
  }
  plan->second.workspace_bytes = bytes;
  if (out != nullptr) *out = bytes;
  return kSuccess;
}

template <typename Number>
std::vector<std::int64_t> sizes_of(int rank, const Number* sizes) {
  return rank < 1 || rank > 3 || sizes == nullptr ? std::vector<std::int64_t>{}
                                                  : std::vector<std::int64_t>(sizes, sizes + rank);
}

/// Executes a transform. Its plan must have been made.
int execute(int handle) {
  Handle stream = nullptr;
  {
    const std::lock_guard guard(mutex);
    const auto plan = plans.find(handle);
    if (plan == plans.end() || plan->second.workspace_bytes == 0) return kInvalidPlan;
    stream = plan->second.stream;
  }
  launch(stream);
  return kSuccess;
}

}  // namespace

Handle stream_of(Handle) { return nullptr; }  // a plan is a number; calls with a plan launch on its stream themselves

}  // namespace ration::standin

STANDIN int cufftCreate(int* out) {
  if (out == nullptr) return kInvalidValue;
  const std::lock_guard guard(mutex);
  plans[*out = ++last_plan] = {};
  return kSuccess;
}
STANDIN int cufftDestroy(int handle) {
  const std::lock_guard guard(mutex);
  const auto plan = plans.find(handle);
  if (plan == plans.end()) return kInvalidPlan;
  give(plan->second.workspace);
  plans.erase(plan);
  return kSuccess;
}
STANDIN int cufftSetAutoAllocation(int handle, int on) {
  const std::lock_guard guard(mutex);
  const auto plan = plans.find(handle);
  if (plan == plans.end()) return kInvalidPlan;
  plan->second.takes_its_own = on != 0;
  return kSuccess;
}
STANDIN int cufftSetWorkArea(int handle, void*) {
  const std::lock_guard guard(mutex);
  const auto plan = plans.find(handle);
  if (plan == plans.end()) return kInvalidPlan;
  give(std::exchange(plan->second.workspace, 0));
  return kSuccess;
}
STANDIN int cufftGetSize(int handle, std::size_t* out) {
  if (out == nullptr) return kInvalidValue;
  const std::lock_guard guard(mutex);
  const auto plan = plans.find(handle);
  if (plan == plans.end()) return kInvalidPlan;
  *out = plan->second.workspace_bytes;
  return kSuccess;
}
STANDIN int cufftSetStream(int handle, Handle stream) {
  const std::lock_guard guard(mutex);
  const auto plan = plans.find(handle);
  if (plan == plans.end()) return kInvalidPlan;
  plan->second.stream = stream;
  return kSuccess;
}

// Defines the functions for one shape of plans. Two make a plan, with an existing handle or a new one. Two return the
// size of a plan's workspace, and need no plan for that.
#define SHAPE(name, sizes, batch, ...)                                                                    \
  STANDIN int cufftMakePlan##name(int plan, __VA_ARGS__, std::size_t* bytes) {                            \
    return make(plan, sizes, batch, bytes_of_type(type), bytes);                                          \
  }                                                                                                       \
  STANDIN int cufftGetSize##name(int, __VA_ARGS__, std::size_t* bytes) {                                  \
    return measure(sizes, batch, bytes_of_type(type), bytes);                                             \
  }                                                                                                       \
  STANDIN int cufftEstimate##name(__VA_ARGS__, std::size_t* bytes) {                                      \
    return measure(sizes, batch, bytes_of_type(type), bytes);                                             \
  }                                                                                                       \
  STANDIN int cufftPlan##name(int* plan, __VA_ARGS__) {                                                   \
    if (const int status = cufftCreate(plan); status != kSuccess) return status;                          \
    if (const int status = make(*plan, sizes, batch, bytes_of_type(type), nullptr); status != kSuccess) { \
      (void)cufftDestroy(*plan);                                                                          \
      return status;                                                                                      \
    }                                                                                                     \
    return kSuccess;                                                                                      \
  }
#define SIZES(...) (std::vector<std::int64_t>{__VA_ARGS__})
SHAPE(1d, SIZES(x), batch, int x, int type, int batch)
SHAPE(2d, SIZES(x, y), 1, int x, int y, int type)
SHAPE(3d, SIZES(x, y, z), 1, int x, int y, int z, int type)
SHAPE(Many, sizes_of(rank, sizes), batch, int rank, const int* sizes, const int*, int, int, const int*, int, int,
      int type, int batch)

using Wide = long long;
STANDIN int cufftMakePlanMany64(int plan, int rank, const Wide* sizes, const Wide*, Wide, Wide, const Wide*, Wide, Wide,
                                int type, Wide batch, std::size_t* bytes) {
  return make(plan, sizes_of(rank, sizes), batch, bytes_of_type(type), bytes);
}
STANDIN int cufftGetSizeMany64(int, int rank, const Wide* sizes, const Wide*, Wide, Wide, const Wide*, Wide, Wide,
                               int type, Wide batch, std::size_t* bytes) {
  return measure(sizes_of(rank, sizes), batch, bytes_of_type(type), bytes);
}
STANDIN int cufftXtMakePlanMany(int plan, int rank, const Wide* sizes, const Wide*, Wide, Wide, int, const Wide*, Wide,
                                Wide, int, Wide batch, std::size_t* bytes, int type) {
  return make(plan, sizes_of(rank, sizes), batch, bytes_of_data_type(type), bytes);
}
STANDIN int cufftXtGetSizeMany(int, int rank, const Wide* sizes, const Wide*, Wide, Wide, int, const Wide*, Wide, Wide,
                               int, Wide batch, std::size_t* bytes, int type) {
  return measure(sizes_of(rank, sizes), batch, bytes_of_data_type(type), bytes);
}

#define EXECUTION(name, ...) \
  STANDIN int cufft##name(int plan, const void*, void* __VA_OPT__(, ) __VA_ARGS__) { return execute(plan); }
EXECUTION(ExecC2C, int)
EXECUTION(ExecR2C)
EXECUTION(ExecC2R)
EXECUTION(ExecZ2Z, int)
EXECUTION(ExecD2Z)
EXECUTION(ExecZ2D)
EXECUTION(XtExec, int)

STANDIN int cufftGetVersion(int* out) {
  *out = RATION_LIBRARY_MAJOR * 1000 + 900;
  return kSuccess;
}
STANDIN int cufftGetProperty(int kind, int* out) {
  *out = kind == 0 ? RATION_LIBRARY_MAJOR : kind == 1 ? 9 : 0;
  return kSuccess;
}
