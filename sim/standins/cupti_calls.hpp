// The translation of the simulated driver's operations to records and callbacks. The driver calls `observe`
// (sim/observer.hpp).
#pragma once

#include "cupti_buffers.hpp"
#include "observer.hpp"

namespace ration::standin::cupti {

constexpr std::uint32_t kDriverDomain = 1, kRuntimeDomain = 2;

/// A reported function, with CUPTI's name and number.
struct Call {
  const char* name;
  std::uint32_t number;
};
/// Returns the function, or null if it is not reported.
const Call* call_named(std::uint32_t domain, const char* function);
const Call* call_numbered(std::uint32_t domain, std::uint32_t number);

void observe(sim::Operation* operation, int is_done);

/// Pushes the program's external id for the calling thread and the kind.
void push_external(std::uint32_t kind, std::uint64_t number);
/// Pops the last external id. Returns false if there is none.
bool pop_external(std::uint32_t kind, std::uint64_t* last);

/// Returns the number of a context, which is small and never reused.
std::uint32_t context_number(const void* context);

/// The layout of CUpti_CallbackData.
struct CallbackData {
  int is_exit = 0;
  const char* function = nullptr;
  const void* parameters = nullptr;
  void* result = nullptr;
  const char* kernel = nullptr;
  cuda::CUcontext context = nullptr;
  std::uint32_t context_number = 0;
  std::uint64_t* data = nullptr;
  std::uint32_t correlation = 0;
};
using Callback = void (*)(void* user, std::uint32_t domain, std::uint32_t number, const void* data);

constexpr std::size_t kMaxCalls = 1024;  // the numbers of functions are below this

struct Subscriber {
  std::atomic<Callback> callback{nullptr};
  std::atomic<void*> user{nullptr};
  std::atomic<bool> wants[kMaxCalls];
};
extern Subscriber subscriber;

/// True if records have the system's thread numbers, false if they have those of pthread_self().
extern std::atomic<bool> system_threads;

}  // namespace ration::standin::cupti
