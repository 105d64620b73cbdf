// Modules, libraries, functions and their launches. Images are taken as they are, every function that is asked for is
// there, and running one does nothing: contents that a kernel would compute stay what they were.
#include <cstring>
#include <string>
#include <unordered_map>

#include "capture.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

struct Image;
struct Function {
  Image* image = nullptr;
  std::string name;
  std::unordered_map<int, int> attributes;
};
struct Image {
  Context* context = nullptr;
  std::unordered_map<std::string, Function*> functions;
};

constexpr int kMaxThreads = 0, kMaxDynamicShared = 8;  // CUfunction_attribute

template <typename Handle>
CUresult load(Handle* out, const void* image, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<Handle>(new Image{current(), {}});
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult find(Handle* out, Image* image, const char* name, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr || image == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  Function*& entry = image->functions[name];
  if (entry == nullptr) entry = new Function{image, name, {}};
  *out = reinterpret_cast<Handle>(entry);
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult unload(Handle handle, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  auto* image = reinterpret_cast<Image*>(handle);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& [name, entry] : image->functions) delete entry;
  delete image;
  return CUDA_SUCCESS;
}

CUresult attribute(int* out, int number, Function* entry, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr || entry == nullptr || number < 0) return CUDA_ERROR_INVALID_VALUE;
  const auto set = entry->attributes.find(number);
  *out = set != entry->attributes.end() ? set->second
         : number == kMaxThreads        ? 1024
         : number == 4                  ? 32
         : number == 5 || number == 6   ? 80
                                        : 0;
  return CUDA_SUCCESS;
}

CUresult set_attribute(Function* entry, int number, int value, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (entry == nullptr || number < kMaxDynamicShared) return CUDA_ERROR_INVALID_VALUE;
  entry->attributes[number] = value;
  return CUDA_SUCCESS;
}

CUresult launch(CUstream stream, const char* function) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  (void)capture_work(stream);
  return CUDA_SUCCESS;
}

CUresult blocks(int* out, int threads, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr || threads < 1) return CUDA_ERROR_INVALID_VALUE;
  *out = threads > 1024 ? 0 : std::min(16, 2048 / threads);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace ration::sim

using namespace ration::sim;
using namespace ration::cuda;
using Launch = const struct {
  unsigned int grid[3], block[3], shared;
  CUstream stream;
}*;  // the beginning of CUlaunchConfig

RATION_ENTRY cuModuleLoad(CUmodule* out, const char* file) { return load(out, file); }
RATION_ENTRY cuModuleLoadData(CUmodule* out, const void* image) { return load(out, image); }
RATION_ENTRY cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int, int*, void**) {
  return load(out, image);
}
RATION_ENTRY cuModuleLoadFatBinary(CUmodule* out, const void* image) { return load(out, image); }
RATION_ENTRY cuModuleUnload(CUmodule module) { return unload(module); }
RATION_ENTRY cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  return find(out, reinterpret_cast<Image*>(module), name);
}
RATION_ENTRY cuModuleGetLoadingMode(int* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 2;  // lazy
  return CUDA_SUCCESS;
}
RATION_ENTRY cuLibraryLoadData(void** out, const void* code, int*, void**, unsigned int, int*, void**, unsigned int) {
  return load(out, code);
}
RATION_ENTRY cuLibraryLoadFromFile(void** out, const char* file, int*, void**, unsigned int, int*, void**,
                                   unsigned int) {
  return load(out, file);
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

#define LAUNCH(name, ...)                                                                                           \
  RATION_ENTRY name(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, \
                    unsigned int, CUstream stream, void** __VA_OPT__(, ) __VA_ARGS__) {                             \
    return launch(stream, #name);                                                                                   \
  }                                                                                                                 \
  RATION_ENTRY name##_ptsz(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,        \
                           unsigned int, unsigned int, CUstream stream, void** __VA_OPT__(, ) __VA_ARGS__) {        \
    return launch(per_thread(stream), #name);                                                                       \
  }
LAUNCH(cuLaunchKernel, void**)
LAUNCH(cuLaunchCooperativeKernel)
RATION_ENTRY cuLaunchKernelEx(Launch config, CUfunction, void**, void**) {
  return config == nullptr ? CUDA_ERROR_INVALID_VALUE : launch(config->stream, "cuLaunchKernelEx");
}
RATION_ENTRY cuLaunchKernelEx_ptsz(Launch config, CUfunction, void**, void**) {
  return config == nullptr ? CUDA_ERROR_INVALID_VALUE : launch(per_thread(config->stream), "cuLaunchKernelEx");
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
