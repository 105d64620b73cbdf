// The declarations that all files of the simulated CUDA runtime share: the look-up of the driver's functions, the
// calling thread's device and last error, and the kernels that programs register. The runtime keeps no memory of its
// own. It calls libcuda.so.1, so a guard in front of the driver sees every request.
#pragma once

#include <optional>
#include <type_traits>

#include "observer.hpp"
#include "runtime_abi.hpp"

#define CUDART(name) extern "C" [[gnu::visibility("default")]] ration::cudart::Error name

/// Returns the driver's function as a pointer to `signature`, or null if the driver has none. Looks it up once.
#define DRIVER(name, ...)                                                                                 \
  ([] {                                                                                                   \
    static auto* const driver_function_ =                                                                 \
        reinterpret_cast<std::add_pointer_t<__VA_ARGS__>>(::ration::cudart::find_driver_function(#name)); \
    return driver_function_;                                                                              \
  }())

namespace ration::cudart {

void* find_driver_function(const char* name);

/// Keeps the error for cudaGetLastError() and returns it.
Error remember(Error error) noexcept;
/// Returns cudaErrorNotSupported. cudaGetErrorString() names `function` until the thread calls another function that is
/// not simulated.
Error not_simulated(const char* function) noexcept;

/// Initialises the driver. Returns an error if there is no driver.
Error start();
/// Ensures that a context is current. If the program has made none current, makes the primary context of the thread's
/// device current.
Error enter();
/// Returns the thread's device.
int device() noexcept;
/// Sets the thread's device, and makes the primary context of that device the current one. Creates the context if it
/// does not exist yet.
Error set_device(int ordinal);
/// Returns the primary context of a device, or null on failure. Creates the context if it does not exist yet.
cuda::CUcontext primary(int ordinal);
/// Forgets the primary context of a device. Returns false if this library had not retained it.
bool forget_primary(int ordinal);

/// Returns the driver's current context, or null.
cuda::CUcontext current_context();

const char* name_of(Error error);
const char* text_of(Error error);

/// Calls a function of the driver that needs no context.
template <typename Function, typename... Arguments>
Error ask(Function* function, Arguments... arguments) {
  if (const Error error = start(); error != cudaSuccess) return remember(error);
  return remember(function == nullptr ? cudaErrorInsufficientDriver : static_cast<Error>(function(arguments...)));
}
/// Calls a function of the driver in the thread's context.
template <typename Function, typename... Arguments>
Error call(Function* function, Arguments... arguments) {
  if (const Error error = enter(); error != cudaSuccess) return remember(error);
  return remember(function == nullptr ? cudaErrorInsufficientDriver : static_cast<Error>(function(arguments...)));
}

/// A call of a runtime function that is reported to the simulated driver's observer: its beginning when this object is
/// made, its end when this object is destroyed. Driver calls in between belong to the runtime's call.
class ReportedCall {
 public:
  explicit ReportedCall(const char* function);
  ~ReportedCall();
  ReportedCall(const ReportedCall&) = delete;
  ReportedCall& operator=(const ReportedCall&) = delete;

 private:
  sim::Observer observer_;
  std::optional<sim::Operation> operation_;
};

inline cuda::CUdeviceptr number(const void* address) { return reinterpret_cast<cuda::CUdeviceptr>(address); }

/// Returns the driver's function for a kernel of the program. `kernel` is the address of a registered stub or a handle
/// that the runtime gave out; for any other value, returns null. Requires the thread's context to be current.
cuda::CUfunction function_of(const void* kernel);
/// Finds a registered variable on the thread's device, and its size.
Error find_variable(const void* host_variable, cuda::CUdeviceptr& address, std::size_t& size);

}  // namespace ration::cudart
