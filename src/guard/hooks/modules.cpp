// Modules: loaded code of one context. A driver takes the memory for a module's code and `__device__` variables when
// the module is loaded, or at its first use (driver API, module management; CUDA_MODULE_LOADING). The guard charges all
// of it when a module is loaded, by the sizes in the image (driver/code_image.hpp). Code that the driver
// compiles from PTX, or that NVIDIA's runtime loads by private functions, is not charged here; the daemon finds its
// memory by comparing the books with the driver.
#include "driver/cuda_abi.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/code.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/table.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

struct Module {
  std::uint64_t bytes = 0;
  std::uint64_t context = 0;
};
Table<Module> modules;  // the key is the handle

template <typename Call>
CUresult load(const driver::CodeImage& image, const Place& place, const char* function, CUmodule* out,
              Call&& call) noexcept {
  if (image.telling == driver::Telling::kBroken)
    return CUDA_ERROR_INVALID_IMAGE;  // a broken image must not be taken for an empty one
  if (image.size == Bytes{0}) return call();
  const CUresult result = while_device_is_full(place.account, function, [&](Bytes& refused) {
    if (!charge_code(place, image.size, function)) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult loaded = call();
    if (loaded != CUDA_SUCCESS) undo_code(place.context, image.size);
    if (loaded == CUDA_ERROR_OUT_OF_MEMORY) refused = image.size;
    return loaded;
  });
  if (result != CUDA_SUCCESS) return result;
  Module stale;  // the entry of a context that another thread is destroying
  if (modules.replace(reinterpret_cast<std::uint64_t>(*out), {image.size.count(), place.context}, stale))
    refund_code(stale.context, Bytes{stale.bytes});
  if (contexts_changed_since(place) && !context_lives(place.context)) code_of_context_is_gone(place.context);
  return result;
}

CUdevice current_device() noexcept {
  CUdevice device = -1;
  return real<cuCtxGetDevice_t>(Symbol::cuCtxGetDevice)(&device) == CUDA_SUCCESS ? device : -1;
}

}  // namespace

void modules_of_context_are_gone(std::uint64_t context) noexcept {
  modules.remove_if([&](std::uint64_t, const Module& module) { return module.context == context; });
  code_of_context_is_gone(context);
}

void adopt_modules(std::uint64_t handle, std::uint64_t number) noexcept {
  modules.each([&](std::uint64_t, Module& module) {
    if (module.context == handle) module.context = number;
  });
  renumber_code(handle, number);
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept { modules.abandon(); });

}  // namespace ration::guard

using namespace ration::guard;
using namespace ration::cuda;

// Defines a hook NAME(OUT, SOURCE, …); the arguments after SOURCE are passed on as they are.
#define RATION_LOAD(name, source, image_of, parameters, arguments)                           \
  RATION_HOOK CUresult name parameters {                                                     \
    const auto call = [&] { return real<name##_t>(Symbol::name) arguments; };                \
    if (!governed() || out == nullptr || source == nullptr) return call();                   \
    const Place place = current_place();                                                     \
    if (place.context == 0) return call();                                                   \
    return load(image_of(source, capability_of(current_device())), place, #name, out, call); \
  }
RATION_LOAD(cuModuleLoad, path, image_in_file, (CUmodule * out, const char* path), (out, path))
RATION_LOAD(cuModuleLoadData, image, image_in_memory, (CUmodule * out, const void* image), (out, image))
RATION_LOAD(cuModuleLoadDataEx, image, image_in_memory,
            (CUmodule * out, const void* image, unsigned int count, int* options, void** values),
            (out, image, count, options, values))
RATION_LOAD(cuModuleLoadFatBinary, image, image_in_memory, (CUmodule * out, const void* image), (out, image))
#undef RATION_LOAD

// Unloads a module. The entry is taken out first, because another module may get the handle once the module is
// unloaded.
RATION_HOOK CUresult cuModuleUnload(CUmodule handle) {
  const auto key = reinterpret_cast<std::uint64_t>(handle);
  auto* const call_real = real<cuModuleUnload_t>(Symbol::cuModuleUnload);
  Module module;
  if (!governed() || !modules.take(key, module)) return call_real(handle);
  const CUresult result = call_real(handle);
  if (result == CUDA_SUCCESS)
    refund_code(module.context, ration::Bytes{module.bytes});
  else
    modules.insert(key, module);
  return result;
}
