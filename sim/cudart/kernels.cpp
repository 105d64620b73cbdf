// Kernels: their registration by a program, their attributes, and their launches, which compute nothing. An image is
// loaded into the driver when a program first needs one of its kernels, as the runtime does since CUDA 12.
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "runtime.hpp"

namespace ration::cudart {
namespace {

using namespace cuda;

struct Image {
  const void* code = nullptr;
  std::unordered_map<CUcontext, CUmodule> modules;
};
struct Kernel {
  Image* image = nullptr;
  std::string name;
  std::unordered_map<CUcontext, CUfunction> functions;
};
struct Variable {
  const Image* image = nullptr;
  std::size_t size = 0;
  void** managed = nullptr;  ///< the place where the program keeps the variable's address
  std::unordered_map<CUcontext, CUdeviceptr> addresses;
};

// The kernels and variables of the program. Entries are added while libraries are loaded, before anything else runs,
// and removed when the libraries are unloaded.
struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<const void*, Kernel> kernels;  // by the address of the host's stub
  std::unordered_map<const void*, Variable> variables;
  std::unordered_set<const void*> handles;  // functions of the driver that were given out as kernels
};
Registry& registry() {
  static auto* const all = new Registry;  // never destroyed: atexit handlers use it
  return *all;
}

/// Loads a kernel's image into a context and returns the kernel, or null. Requires the registry's exclusive lock.
CUfunction load(Kernel& kernel, CUcontext context) {
  CUmodule& module = kernel.image->modules[context];
  if (module == nullptr && DRIVER(cuModuleLoadData, cuModuleLoadData_t)(&module, kernel.image->code) != CUDA_SUCCESS)
    return nullptr;
  CUfunction function = nullptr;
  DRIVER(cuModuleGetFunction, cuModuleGetFunction_t)(&function, module, kernel.name.c_str());
  return function;
}

}  // namespace

CUfunction function_of(const void* kernel) {
  if (enter() != cudaSuccess) return nullptr;
  CUcontext context = current_context();
  Registry& all = registry();
  {
    const std::shared_lock guard(all.mutex);
    if (all.handles.contains(kernel)) return static_cast<CUfunction>(const_cast<void*>(kernel));
    const auto found = all.kernels.find(kernel);
    if (found == all.kernels.end()) return nullptr;
    const auto loaded = found->second.functions.find(context);
    if (loaded != found->second.functions.end()) return loaded->second;
  }
  const std::unique_lock guard(all.mutex);
  const auto found = all.kernels.find(kernel);
  if (found == all.kernels.end()) return nullptr;
  CUfunction& function = found->second.functions[context];
  if (function == nullptr) function = load(found->second, context);
  return function;
}

Error find_variable(const void* host_variable, CUdeviceptr& address, std::size_t& size) {
  if (const Error error = enter(); error != cudaSuccess) return error;
  CUcontext context = current_context();
  Registry& all = registry();
  const std::unique_lock guard(all.mutex);
  const auto found = all.variables.find(host_variable);
  if (found == all.variables.end()) return cudaErrorInvalidSymbol;
  Variable& variable = found->second;
  size = variable.size;
  CUdeviceptr& here = variable.addresses[context];
  if (here == 0) {
    const auto result = variable.managed != nullptr
                            ? DRIVER(cuMemAllocManaged, cuMemAllocManaged_t)(&here, variable.size, 1)
                            : DRIVER(cuMemAlloc_v2, cuMemAlloc_v2_t)(&here, variable.size);
    if (result != CUDA_SUCCESS) return static_cast<Error>(result);
    if (variable.managed != nullptr) *variable.managed = reinterpret_cast<void*>(here);
  }
  address = here;
  return cudaSuccess;
}

namespace {

Error launch(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, Handle stream) {
  const ReportedCall reported("cudaLaunchKernel");
  CUfunction function = function_of(kernel);
  if (function == nullptr) return remember(cudaErrorInvalidDeviceFunction);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0 ||
      std::uint64_t{block.x} * block.y > 1024 || std::uint64_t{block.x} * block.y * block.z > 1024)
    return remember(cudaErrorInvalidConfiguration);
  return call(DRIVER(cuLaunchKernel, cuLaunchKernel_t), function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
              static_cast<unsigned int>(shared), static_cast<CUstream>(stream), arguments, nullptr);
}

Error give_out(void** out, CUfunction function) {
  if (out == nullptr) return remember(cudaErrorInvalidValue);
  if (function == nullptr) return remember(cudaErrorInvalidDeviceFunction);
  *out = function;
  Registry& all = registry();
  const std::unique_lock guard(all.mutex);
  all.handles.insert(function);
  return cudaSuccess;
}

struct Configuration {
  dim3 grid, block;
  std::size_t shared;
  Handle stream;
};
thread_local std::deque<Configuration> configurations;

}  // namespace
}  // namespace ration::cudart

using namespace ration::cudart;
using namespace ration::cuda;

// The functions that compiled programs call.
extern "C" {
[[gnu::visibility("default")]] void** __cudaRegisterFatBinary(void* wrapper) {
  return reinterpret_cast<void**>(new Image{wrapper, {}});
}
[[gnu::visibility("default")]] void __cudaRegisterFatBinaryEnd(void**) {}
[[gnu::visibility("default")]] char __cudaInitModule(void**) { return 1; }
[[gnu::visibility("default")]] void __cudaUnregisterFatBinary(void** handle) {
  Registry& all = registry();
  const std::unique_lock guard(all.mutex);
  auto* image = reinterpret_cast<Image*>(handle);
  std::erase_if(all.kernels, [&](const auto& entry) { return entry.second.image == image; });
  std::erase_if(all.variables, [&](const auto& entry) { return entry.second.image == image; });
  delete image;  // its modules stay in their contexts, since the driver may be gone by now
}
[[gnu::visibility("default")]] void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name,
                                                           int, void*, void*, void*, void*, int*) {
  Registry& all = registry();
  const std::unique_lock guard(all.mutex);
  all.kernels[stub] = {reinterpret_cast<Image*>(handle), name, {}};
}
[[gnu::visibility("default")]] void __cudaRegisterVar(void** handle, char* variable, char*, const char*, int,
                                                      std::size_t size, int, int) {
  Registry& all = registry();
  const std::unique_lock guard(all.mutex);
  all.variables[variable] = {reinterpret_cast<Image*>(handle), size, nullptr, {}};
}
[[gnu::visibility("default")]] void __cudaRegisterManagedVar(void** handle, void** variable, char*, const char*, int,
                                                             std::size_t size, int, int) {
  Registry& all = registry();
  const std::unique_lock guard(all.mutex);
  all.variables[variable] = {reinterpret_cast<Image*>(handle), size, variable, {}};
}
[[gnu::visibility("default")]] void __cudaRegisterHostVar(void**, const char*, char*, std::size_t) {}
[[gnu::visibility("default")]] unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                                                        Handle stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
}
CUDART(__cudaPopCallConfiguration)(dim3* grid, dim3* block, std::size_t* shared, Handle* stream) {
  if (configurations.empty()) return remember(cudaErrorMissingConfiguration);
  const Configuration top = configurations.back();
  configurations.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *stream = top.stream;
  return cudaSuccess;
}
// Returns the stub's address as the kernel's handle: it is valid on every device, and nothing is loaded until a launch.
CUDART(__cudaGetKernel)(const void** out, const void* stub) {
  Registry& all = registry();
  const std::shared_lock guard(all.mutex);
  if (!all.kernels.contains(stub)) return remember(cudaErrorInvalidDeviceFunction);
  *out = stub;
  return cudaSuccess;
}
CUDART(__cudaLaunchKernel)
(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, Handle stream) {
  return launch(kernel, grid, block, arguments, shared, stream);
}
CUDART(cudaGetKernel)(const void** out, const void* stub) { return __cudaGetKernel(out, stub); }
CUDART(cudaGetFuncBySymbol)(void** out, const void* stub) { return give_out(out, function_of(stub)); }
CUDART(cudaLaunchKernel)
(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, Handle stream) {
  return launch(kernel, grid, block, arguments, shared, stream);
}
CUDART(cudaLaunchCooperativeKernel)
(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, Handle stream) {
  const ReportedCall reported(__func__);
  return launch(kernel, grid, block, arguments, shared, stream);
}
CUDART(cudaLaunchKernelExC)(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  const ReportedCall reported(__func__);
  if (config == nullptr) return remember(cudaErrorInvalidValue);
  return launch(kernel, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream);
}

// ---------------------------------------------------------------------------------------------------------- attributes

CUDART(cudaFuncGetAttributes)(cudaFuncAttributes* out, const void* kernel) {
  if (out == nullptr) return remember(cudaErrorInvalidValue);
  CUfunction function = function_of(kernel);
  if (function == nullptr) return remember(cudaErrorInvalidDeviceFunction);
  auto* get = DRIVER(cuFuncGetAttribute, CUresult(int*, int, CUfunction));
  const auto of = [&](int number) {
    int value = 0;
    get(&value, number, function);
    return value;
  };
  *out = {};
  out->maxThreadsPerBlock = of(0);
  out->sharedSizeBytes = static_cast<std::size_t>(of(1));
  out->constSizeBytes = static_cast<std::size_t>(of(2));
  out->localSizeBytes = static_cast<std::size_t>(of(3));
  out->numRegs = of(4);
  out->ptxVersion = of(5);
  out->binaryVersion = of(6);
  constexpr int kSharedByDefault = 48 << 10;
  out->maxDynamicSharedSizeBytes = of(8) > 0 ? of(8) : kSharedByDefault;
  out->preferredShmemCarveout = of(9);
  return cudaSuccess;
}
CUDART(cudaFuncSetAttribute)(const void* kernel, int number, int value) {
  CUfunction function = function_of(kernel);
  if (function == nullptr) return remember(cudaErrorInvalidDeviceFunction);
  return call(DRIVER(cuFuncSetAttribute, CUresult(CUfunction, int, int)), function, number, value);
}
CUDART(cudaFuncSetCacheConfig)(const void* kernel, int) {
  return function_of(kernel) != nullptr ? cudaSuccess : remember(cudaErrorInvalidDeviceFunction);
}
CUDART(cudaFuncGetName)(const char** out, const void* kernel) {
  CUfunction function = function_of(kernel);
  if (function == nullptr) return remember(cudaErrorInvalidDeviceFunction);
  return call(DRIVER(cuFuncGetName, CUresult(const char**, CUfunction)), out, function);
}
CUDART(cudaKernelSetAttributeForDevice)(const void* kernel, int number, int value, int) {
  return cudaFuncSetAttribute(kernel, number, value);
}
CUDART(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
(int* out, const void* kernel, int threads, std::size_t shared, unsigned int flags) {
  CUfunction function = function_of(kernel);
  if (function == nullptr) return remember(cudaErrorInvalidDeviceFunction);
  return call(DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
                     CUresult(int*, CUfunction, int, std::size_t, unsigned int)),
              out, function, threads, shared, flags);
}
CUDART(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
(int* out, const void* kernel, int threads, std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, kernel, threads, shared, 0);
}
CUDART(cudaOccupancyAvailableDynamicSMemPerBlock)(std::size_t* out, const void* kernel, int, int) {
  if (out == nullptr) return remember(cudaErrorInvalidValue);
  if (function_of(kernel) == nullptr) return remember(cudaErrorInvalidDeviceFunction);
  *out = 48 << 10;
  return cudaSuccess;
}

// ----------------------------------------------------------------------------------------------------------- libraries

CUDART(cudaLibraryLoadData)
(void** out, const void* code, int* jit, void** jit_values, unsigned int jit_count, int* options, void** values,
 unsigned int count) {
  return call(
      DRIVER(cuLibraryLoadData, CUresult(void**, const void*, int*, void**, unsigned int, int*, void**, unsigned int)),
      out, code, jit, jit_values, jit_count, options, values, count);
}
CUDART(cudaLibraryLoadFromFile)
(void** out, const char* file, int* jit, void** jit_values, unsigned int jit_count, int* options, void** values,
 unsigned int count) {
  return call(DRIVER(cuLibraryLoadFromFile,
                     CUresult(void**, const char*, int*, void**, unsigned int, int*, void**, unsigned int)),
              out, file, jit, jit_values, jit_count, options, values, count);
}
CUDART(cudaLibraryUnload)(void* library) { return call(DRIVER(cuLibraryUnload, CUresult(void*)), library); }
CUDART(cudaLibraryGetKernel)(void** out, void* library, const char* name) {
  void* kernel = nullptr;
  if (const Error error =
          call(DRIVER(cuLibraryGetKernel, CUresult(void**, void*, const char*)), &kernel, library, name);
      error != cudaSuccess)
    return error;
  return give_out(out, static_cast<CUfunction>(kernel));
}
