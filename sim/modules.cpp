// Modules, libraries, functions and their launches. Every text, such as PTX, is accepted as an image that has every
// function a program asks for. Running a function does nothing: memory that a kernel would write does not change.
//
// An image that tells its size (driver/code_image.hpp) takes that much memory, for code and global variables ("The
// amount of memory that is set aside for __device__ variables", driver API, module management), as with
// CUDA_MODULE_LOADING=EAGER. A module takes the memory in its context; a library takes it in every context that exists
// or is made while the library is loaded. Text takes no memory here, since its size is unknown. A function
// `…__local16384` needs that many bytes of local memory per thread; its first launch takes them for every thread that
// can be resident ("the driver automatically increases the per-thread stack size for each kernel launch as needed",
// driver API, cuCtxSetLimit).
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>

#include "base/whole_file.hpp"
#include "capture.hpp"
#include "code.hpp"
#include "managed.hpp"
#include "observer.hpp"
#include "stream_time.hpp"

RATION_ENTRY cuDeviceGetAttribute(int* out, ration::cuda::CUdevice_attribute attribute, ration::cuda::CUdevice ordinal);

namespace ration::sim {
namespace {

using namespace cuda;

struct Image;
struct Function {
  Image* image = nullptr;
  std::string name;
  bool spins = false;  // its kernel takes as many cycles as its argument says, like `torch.cuda._sleep`
  std::unordered_map<int, int> attributes;
};
struct Image {
  bool is_library = false;
  std::unordered_map<int, SharedCode> codes;          // by device
  std::unordered_map<const Context*, Placed> places;  // by context; a module has one
  std::unordered_map<std::string, Function*> functions;
};

// These sets require driver().mutex. They are never destroyed, since atexit handlers call the driver.
auto& images() {
  static auto* all = new std::unordered_set<Image*>;
  return *all;
}
auto& live_contexts() {
  static auto* all = new std::unordered_set<Context*>;
  return *all;
}

constexpr int kMaxThreads = 0, kLocalSize = 3, kMaxDynamicShared = 8;  // CUfunction_attribute

int local_size(const std::string& name) {
  const auto at = name.rfind("__local");
  return at == std::string::npos ? 0 : std::atoi(name.c_str() + at + 7);
}

/// Places the image's code in a context. Returns false if the device is full. Requires driver().mutex.
bool place(Image& image, Context* context) {
  const auto code = image.codes.find(context->device);
  return code == image.codes.end() || image.places.contains(context) ||
         place_code(context, code->second, image.places[context]);
}

void remove(Image& image, Context* context) {
  const auto placed = image.places.find(context);
  if (placed == image.places.end()) return;
  remove_code(context, placed->second);
  image.places.erase(placed);
}

template <typename Source>
CUresult load_module(CUmodule* out, const Source& source) {
  Context* context = current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto image = std::make_unique<Image>();
  if (const CUresult read = read_code(source, context->device, image->codes[context->device]); read != CUDA_SUCCESS)
    return read;
  const std::lock_guard guard(driver().mutex);
  if (!context->alive) return CUDA_ERROR_INVALID_CONTEXT;
  if (!place(*image, context)) return CUDA_ERROR_OUT_OF_MEMORY;
  images().insert(image.get());
  *out = reinterpret_cast<CUmodule>(image.release());
  return CUDA_SUCCESS;
}

template <typename Source>
CUresult load_library(void** out, const Source& source) {
  auto image = std::make_unique<Image>();
  image->is_library = true;
  for (const int device : driver().visible) {
    if (const CUresult read = read_code(source, device, image->codes[device]); read != CUDA_SUCCESS) return read;
  }
  const std::lock_guard guard(driver().mutex);
  for (Context* context : live_contexts()) {
    if (place(*image, context)) continue;
    for (Context* each : live_contexts()) remove(*image, each);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  images().insert(image.get());
  *out = image.release();
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult load(Handle* out, const void* image, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if constexpr (std::is_same_v<Handle, CUmodule>)
    return load_module(out, image);
  else
    return load_library(out, image);
}

template <typename Handle>
CUresult load_file(Handle* out, const char* path, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  constexpr std::size_t kMostOfImage = std::size_t{4} << 30;  // bytes
  const auto image = read_whole(path, kMostOfImage);
  if (!image) return CUDA_ERROR_FILE_NOT_FOUND;
  if constexpr (std::is_same_v<Handle, CUmodule>)
    return load_module(out, *image);
  else
    return load_library(out, *image);
}

template <typename Handle>
CUresult find(Handle* out, Image* image, const char* name, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr || image == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  Function*& entry = image->functions[name];
  if (entry == nullptr) entry = new Function{image, name, std::strstr(name, "spin_kernel") != nullptr, {}};
  *out = reinterpret_cast<Handle>(entry);
  return CUDA_SUCCESS;
}

CUresult find_global(CUdeviceptr* address, std::size_t* size, Image* image, const char* name,
                     const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (image == nullptr || name == nullptr || (address == nullptr && size == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  const auto placed = image->is_library ? image->places.find(current()) : image->places.begin();
  if (placed == image->places.end()) return CUDA_ERROR_INVALID_CONTEXT;
  const auto& globals = placed->second.code->globals;
  const auto found = globals.find(name);
  if (found == globals.end()) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = placed->second.address + found->second.offset;
  if (size != nullptr) *size = found->second.size;
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult unload(Handle handle, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  auto* image = reinterpret_cast<Image*>(handle);
  const std::lock_guard guard(driver().mutex);
  if (images().erase(image) == 0) return CUDA_ERROR_INVALID_HANDLE;
  if (image->is_library == std::is_same_v<Handle, CUmodule>) {  // a handle of the other kind cannot be unloaded
    images().insert(image);
    return image->is_library ? CUDA_ERROR_NOT_PERMITTED : CUDA_ERROR_INVALID_HANDLE;
  }
  for (Context* context : live_contexts()) remove(*image, context);
  for (const auto& [name, entry] : image->functions) delete entry;
  delete image;
  return CUDA_SUCCESS;
}

/// Returns the compute capability that a kernel was compiled for, or that of the device if its image does not say.
/// Libraries that choose kernels by the compute capability (CUB) reject a value that they were not compiled for.
int version_of(const Function& entry) {
  const std::lock_guard guard(driver().mutex);
  const int device = current() == nullptr ? 0 : current()->device;
  if (const auto code = entry.image->codes.find(device);
      code != entry.image->codes.end() && code->second != nullptr && code->second->capability != 0)
    return static_cast<int>(code->second->capability);
  const Model& model = Node::get()->models()[static_cast<std::size_t>(device)];
  return 10 * model.capability_major + model.capability_minor;
}

CUresult attribute(int* out, int number, Function* entry, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr || entry == nullptr || number < 0) return CUDA_ERROR_INVALID_VALUE;
  const auto set = entry->attributes.find(number);
  *out = set != entry->attributes.end() ? set->second
         : number == kMaxThreads        ? 1024
         : number == kLocalSize         ? local_size(entry->name)
         : number == 4                  ? 32
         : number == 5 || number == 6   ? version_of(*entry)
                                        : 0;
  return CUDA_SUCCESS;
}

CUresult set_attribute(Function* entry, int number, int value, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (entry == nullptr || number < kMaxDynamicShared) return CUDA_ERROR_INVALID_VALUE;
  entry->attributes[number] = value;
  return CUDA_SUCCESS;
}

/// Returns the time for which a kernel keeps its stream busy, in nanoseconds.
std::uint64_t time_of(const Function* kernel, void** arguments) {
  if (kernel == nullptr || !kernel->spins || arguments == nullptr) return kernel_latency();
  std::int64_t cycles = 0;
  int kilohertz = 0;
  std::memcpy(&cycles, arguments[0], sizeof cycles);
  cuDeviceGetAttribute(&kilohertz, static_cast<CUdevice_attribute>(13), ordinal_of(current()->device));
  return static_cast<std::uint64_t>(static_cast<double>(std::max<std::int64_t>(cycles, 0)) * 1e6 / kilohertz);
}

CUresult start(CUfunction handle, CUstream stream, void** arguments, const char* function) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const auto* entry = reinterpret_cast<Function*>(handle);
  if (entry != nullptr) {
    if (const int local = local_size(entry->name); local > 0)
      if (const CUresult grown = grow_stack(current(), static_cast<std::size_t>(local)); grown != CUDA_SUCCESS)
        return grown;
  }
  if (capture_work(stream)) return CUDA_SUCCESS;
  touch_all_managed(current());
  occupy(stream, time_of(entry, arguments));
  return CUDA_SUCCESS;
}

struct Shape {
  unsigned grid[3], block[3], shared;
};

CUresult launch(CUfunction handle, const Shape& shape, CUstream stream, void** arguments, const char* function) {
  const auto describe = [&](Operation& operation) {
    const auto* entry = reinterpret_cast<Function*>(handle);
    operation.kernel = handle;
    operation.name = entry != nullptr ? entry->name.c_str() : "";
    std::copy_n(shape.grid, 3, operation.grid);
    std::copy_n(shape.block, 3, operation.block);
    operation.shared = shape.shared;
    operation.stream = stream;
    operation.is_async = true;
    operation.is_captured = is_captured(stream);
    operation.arguments = arguments;
    if (operation.is_captured || current() == nullptr) return;
    if (const auto time = static_cast<Moment>(time_of(entry, arguments)); time > 0) {
      operation.begins = std::max(now(), end_of(stream));
      operation.ends = operation.begins + time;
    }
  };
  return observed(Work::kLaunch, function, describe, [&] { return start(handle, stream, arguments, function); });
}

CUresult blocks(int* out, int threads, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr || threads < 1) return CUDA_ERROR_INVALID_VALUE;
  *out = threads > 1024 ? 0 : std::min(16, 2048 / threads);
  return CUDA_SUCCESS;
}

}  // namespace

bool load_libraries(Context* context) {
  const std::lock_guard guard(driver().mutex);
  live_contexts().insert(context);
  for (Image* image : images()) {
    if (image->is_library && !place(*image, context)) return false;
  }
  return true;
}

void clear_code(Context* context) {
  live_contexts().erase(context);
  for (Image* image : images()) image->places.erase(context);
  forget_code(context);
}

}  // namespace ration::sim

using namespace ration::sim;
using namespace ration::cuda;
using Launch = const struct {
  Shape shape;
  CUstream stream;
}*;  // has the first fields of CUlaunchConfig

RATION_ENTRY cuModuleLoad(CUmodule* out, const char* file) { return load_file(out, file); }
RATION_ENTRY cuModuleLoadData(CUmodule* out, const void* image) { return load(out, image); }
RATION_ENTRY cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int, int*, void**) {
  return load(out, image);
}
RATION_ENTRY cuModuleLoadFatBinary(CUmodule* out, const void* image) { return load(out, image); }
RATION_ENTRY cuModuleUnload(CUmodule module) { return unload(module); }
RATION_ENTRY cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  return find(out, reinterpret_cast<Image*>(module), name);
}
RATION_ENTRY cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* size, CUmodule module, const char* name) {
  return find_global(address, size, reinterpret_cast<Image*>(module), name);
}
RATION_ENTRY cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* size, void* library, const char* name) {
  return find_global(address, size, static_cast<Image*>(library), name);
}
RATION_ENTRY cuModuleGetLoadingMode(int* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 2;  // lazy loading
  return CUDA_SUCCESS;
}
RATION_ENTRY cuLibraryLoadData(void** out, const void* code, int*, void**, unsigned int, int*, void**, unsigned int) {
  return load(out, code);
}
RATION_ENTRY cuLibraryLoadFromFile(void** out, const char* file, int*, void**, unsigned int, int*, void**,
                                   unsigned int) {
  return load_file(out, file);
}
RATION_ENTRY cuLibraryUnload(void* library) { return unload(library); }
RATION_ENTRY cuLibraryGetKernel(void** out, void* library, const char* name) {
  return find(out, static_cast<Image*>(library), name);
}
RATION_ENTRY cuLibraryGetModule(CUmodule* out, void* library) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr || library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = static_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuKernelGetFunction(CUfunction* out, void* kernel) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr || kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = static_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuKernelGetAttribute(int* out, int number, void* kernel, CUdevice) {
  return attribute(out, number, static_cast<Function*>(kernel));
}
RATION_ENTRY cuKernelSetAttribute(int number, int value, void* kernel, CUdevice) {
  return set_attribute(static_cast<Function*>(kernel), number, value);
}
RATION_ENTRY cuKernelGetName(const char** out, void* kernel) {
  if (out == nullptr || kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = static_cast<Function*>(kernel)->name.c_str();
  return CUDA_SUCCESS;
}
RATION_ENTRY cuFuncGetName(const char** out, CUfunction function) { return cuKernelGetName(out, function); }
RATION_ENTRY cuFuncGetAttribute(int* out, int number, CUfunction function) {
  return attribute(out, number, reinterpret_cast<Function*>(function));
}
RATION_ENTRY cuFuncSetAttribute(CUfunction function, int number, int value) {
  return set_attribute(reinterpret_cast<Function*>(function), number, value);
}
RATION_ENTRY cuFuncSetCacheConfig(CUfunction function, int) {
  return function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
RATION_ENTRY cuFuncGetModule(CUmodule* out, CUfunction function) {
  if (out == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmodule>(reinterpret_cast<Function*>(function)->image);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuFuncLoad(CUfunction function) { return function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }
RATION_ENTRY cuFuncIsLoaded(int* out, CUfunction function) {
  if (out == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 1;
  return CUDA_SUCCESS;
}

#define LAUNCH(name, ...)                                                                                        \
  RATION_ENTRY name(CUfunction handle, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int x,        \
                    unsigned int y, unsigned int z, unsigned int shared, CUstream stream,                        \
                    void** arguments __VA_OPT__(, ) __VA_ARGS__) {                                               \
    return launch(handle, {{gx, gy, gz}, {x, y, z}, shared}, stream, arguments, #name);                          \
  }                                                                                                              \
  RATION_ENTRY name##_ptsz(CUfunction handle, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int x, \
                           unsigned int y, unsigned int z, unsigned int shared, CUstream stream,                 \
                           void** arguments __VA_OPT__(, ) __VA_ARGS__) {                                        \
    return launch(handle, {{gx, gy, gz}, {x, y, z}, shared}, per_thread(stream), arguments, #name);              \
  }
LAUNCH(cuLaunchKernel, void**)
LAUNCH(cuLaunchCooperativeKernel)
RATION_ENTRY cuLaunchKernelEx(Launch config, CUfunction handle, void** arguments, void**) {
  return config == nullptr ? CUDA_ERROR_INVALID_VALUE
                           : launch(handle, config->shape, config->stream, arguments, "cuLaunchKernelEx");
}
RATION_ENTRY cuLaunchKernelEx_ptsz(Launch config, CUfunction handle, void** arguments, void**) {
  return config == nullptr ? CUDA_ERROR_INVALID_VALUE
                           : launch(handle, config->shape, per_thread(config->stream), arguments, "cuLaunchKernelEx");
}

RATION_ENTRY cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, CUfunction, int threads, std::size_t) {
  return blocks(out, threads);
}
RATION_ENTRY cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, CUfunction, int threads, std::size_t,
                                                                  unsigned int) {
  return blocks(out, threads);
}
RATION_ENTRY cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction, std::size_t (*)(int), std::size_t,
                                              int most) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *block = most > 0 ? std::min(most, 1024) : 1024;
  *grid =
      2 *
      (current() == nullptr ? 1 : Node::get()->models()[static_cast<std::size_t>(current()->device)].multiprocessors);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                       std::size_t (*shared)(int), std::size_t dynamic, int most,
                                                       unsigned int) {
  return cuOccupancyMaxPotentialBlockSize(grid, block, function, shared, dynamic, most);
}
