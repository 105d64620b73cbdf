// From what the simulated driver does to records and callbacks. `observe` is what the driver calls (sim/observer.hpp).
#pragma once

#include "cupti_buffers.hpp"
#include "observer.hpp"

namespace ration::standin::cupti {

constexpr std::uint32_t kDriverDomain = 1, kRuntimeDomain = 2;

/// A function that is reported, with CUPTI's name and number.
struct Call {
  const char* name;
  std::uint32_t number;
};
/// Returns null if it is not reported.
const Call* call_named(std::uint32_t domain, const char* function);
const Call* call_numbered(std::uint32_t domain, std::uint32_t number);

void observe(sim::Operation* operation, int is_done);

/// Pushes the program's external id, by thread and kind.
void push_external(std::uint32_t kind, std::uint64_t number);
/// False: there was none.
bool pop_external(std::uint32_t kind, std::uint64_t* last);

/// The number of a context, small and never used again.
std::uint32_t context_number(const void* context);

/// CUpti_CallbackData
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

constexpr std::size_t kMaxCalls = 1024;  // numbers of functions are below

struct Subscriber {
  std::atomic<Callback> callback{nullptr};
  std::atomic<void*> user{nullptr};
  std::atomic<bool> wants[kMaxCalls];
};
extern Subscriber subscriber;

/// True if threads have the system's numbers; else those of pthread_self().
extern std::atomic<bool> system_threads;

}  // namespace ration::standin::cupti
