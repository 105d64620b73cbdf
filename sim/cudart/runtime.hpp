// Shared by every file of the simulated runtime: finding the driver's functions, the calling thread's device and last
// error, and the kernels that programs register. The runtime keeps no memory of its own: it asks libcuda.so.1, so a
// guard in front of the driver sees every request.
#pragma once

#include <optional>
#include <type_traits>

#include "observer.hpp"
#include "runtime_abi.hpp"

#define CUDART(name) extern "C" [[gnu::visibility("default")]] ration::cudart::Error name

/// The driver's function, looked up once, as a pointer to `signature`; null where the driver has none.
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
/// cudaErrorNotSupported; cudaGetErrorString() names the function until the thread's next call of one.
Error not_simulated(const char* function) noexcept;

/// The driver is there and initialised.
Error start();
/// There is a current context: the one that the program made current, or the primary one of the thread's device.
Error enter();
/// The thread's device.
int device() noexcept;
/// The device becomes the thread's, with its primary context, which is made if need be.
Error set_device(int ordinal);
/// The primary context of a device, made if need be; null on failure.
cuda::CUcontext primary(int ordinal);
/// False: this library had not retained it.
bool forget_primary(int ordinal);

/// The driver's current context, or null.
cuda::CUcontext current_context();

const char* name_of(Error error);
const char* text_of(Error error);

/// Calls a function of the driver that needs no context.
template <typename Function, typename... Arguments>
Error ask(Function* function, Arguments... arguments) {
  if (const Error error = start(); error != cudaSuccess) return remember(error);
  return remember(function == nullptr ? cudaErrorInsufficientDriver : static_cast<Error>(function(arguments...)));
}
/// The same in the thread's context.
template <typename Function, typename... Arguments>
Error call(Function* function, Arguments... arguments) {
  if (const Error error = enter(); error != cudaSuccess) return remember(error);
  return remember(function == nullptr ? cudaErrorInsufficientDriver : static_cast<Error>(function(arguments...)));
}

/// Reports to the simulated driver's observer that a function of the runtime begins, and, at the end of the object,
/// that it ends. Driver calls in between belong to it.
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

/// The driver's function for what a program calls a kernel: the address of a registered stub, or a handle that the
/// runtime gave out. Null: neither. In the thread's context.
cuda::CUfunction function_of(const void* kernel);
/// Finds a registered variable on the thread's device, and its size.
Error find_variable(const void* host_variable, cuda::CUdeviceptr& address, std::size_t& size);

}  // namespace ration::cudart
