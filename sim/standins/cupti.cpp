// The stand-in for libcupti, which reports the simulated driver's operations to profilers. This file has the functions
// that a program calls; records and callbacks come from cupti_calls.cpp. There are no counters, no sampling, and no
// records of features that the simulator lacks.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "cupti_calls.hpp"
#include "standin.hpp"

using namespace ration::standin;
using namespace ration::standin::cupti;

namespace {

// The values of CUptiResult.
constexpr int kSuccess = 0, kInvalidParameter = 1, kInvalidContext = 3, kMaxReached = 12, kNotInitialized = 15,
              kQueueEmpty = 18, kInvalidStream = 20, kInvalidKind = 21, kNotSupported = 27, kSubscribed = 39;

const char* name_of(int result) {
  switch (result) {
    case kSuccess:
      return "CUPTI_SUCCESS";
    case kInvalidParameter:
      return "CUPTI_ERROR_INVALID_PARAMETER";
    case kInvalidContext:
      return "CUPTI_ERROR_INVALID_CONTEXT";
    case kMaxReached:
      return "CUPTI_ERROR_MAX_LIMIT_REACHED";
    case kNotInitialized:
      return "CUPTI_ERROR_NOT_INITIALIZED";
    case kQueueEmpty:
      return "CUPTI_ERROR_QUEUE_EMPTY";
    case kInvalidStream:
      return "CUPTI_ERROR_INVALID_STREAM";
    case kInvalidKind:
      return "CUPTI_ERROR_INVALID_KIND";
    case kNotSupported:
      return "CUPTI_ERROR_NOT_SUPPORTED";
    case kSubscribed:
      return "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
    default:
      return "CUPTI_ERROR_UNKNOWN";
  }
}

/// Sets or removes the observer, depending on whether the program wants any records or callbacks. Returns false if the
/// driver is not a simulated one.
bool look_on() {
  using namespace ration;
  static std::mutex mutex;
  const std::lock_guard guard(mutex);
  bool anybody = subscriber.callback != nullptr;
  for (const auto& kind : wanted) anybody |= kind.load();
  const sim::ObserverTable* table = nullptr;
  auto* find = driver<int(const void**, const void*)>("cuGetExportTable");
  if (find == nullptr || find(reinterpret_cast<const void**>(&table), sim::kObserverTable) != 0) return false;
  table->observe(anybody ? observe : nullptr);
  return true;
}

int want(std::uint32_t kind, bool is_wanted) {
  if (kind == 0 || kind >= static_cast<std::uint32_t>(Kind::kCount)) return kInvalidKind;
  wanted[kind] = is_wanted;
  return look_on() ? kSuccess : kNotInitialized;
}

int want_calls(bool are_wanted, std::uint32_t domain, std::uint32_t first, std::size_t end) {
  if (domain != kDriverDomain) return kSuccess;
  for (std::size_t number = first; number < std::min(end, kMaxCalls); ++number) subscriber.wants[number] = are_wanted;
  return look_on() ? kSuccess : kNotInitialized;
}

/// Asks the driver for a property of one of its objects.
template <typename Value, typename... Arguments>
int ask(const char* function, Value& out, Arguments... arguments) {
  auto* question = driver<ration::cuda::CUresult(Arguments..., Value*)>(function);
  return question != nullptr && question(arguments..., &out) == ration::cuda::CUDA_SUCCESS ? kSuccess : kNotInitialized;
}

int stream_number(Handle stream, std::uint32_t* out) {
  unsigned long long number = 0;
  if (out == nullptr) return kInvalidParameter;
  if (ask("cuStreamGetId", number, stream) != kSuccess) return kInvalidStream;
  *out = static_cast<std::uint32_t>(number);
  return kSuccess;
}

}  // namespace

STANDIN int cuptiGetVersion(std::uint32_t* out) {
  if (out == nullptr) return kInvalidParameter;
  *out = RATION_CUDA_MAJOR >= 13 ? 130202 : 28;  // CUDA 13.2 and 12.9
  return kSuccess;
}
STANDIN int cuptiGetResultString(int result, const char** out) {
  if (out == nullptr) return kInvalidParameter;
  *out = result == kNotSupported && missing != nullptr ? missing_text() : name_of(result);
  return kSuccess;
}
STANDIN int cuptiGetErrorMessage(int result, const char** out) { return cuptiGetResultString(result, out); }
STANDIN int cuptiGetLastError() { return kSuccess; }
STANDIN int cuptiGetTimestamp(std::uint64_t* out) {
  if (out == nullptr) return kInvalidParameter;
  *out = now();
  return kSuccess;
}
STANDIN int cuptiDeviceSupported(int, int* out) {
  if (out == nullptr) return kInvalidParameter;
  *out = 1;
  return kSuccess;
}
STANDIN int cuptiComputeCapabilitySupported(int, int, int* out) { return cuptiDeviceSupported(0, out); }

// ------------------------------------------------------------------------------------------------------------ activity

STANDIN int cuptiActivityRegisterCallbacks(RequestBuffer request, CompleteBuffer complete) {
  if (request == nullptr || complete == nullptr) return kInvalidParameter;
  set_buffer_functions(request, complete);
  return kSuccess;
}
STANDIN int cuptiActivityRegisterTimestampCallback(Clock clock) {
  set_clock(clock);
  return kSuccess;
}
STANDIN int cuptiActivityEnable(std::uint32_t kind) { return want(kind, true); }
STANDIN int cuptiActivityDisable(std::uint32_t kind) { return want(kind, false); }
STANDIN int cuptiActivityEnableAndDump(std::uint32_t kind) { return want(kind, true); }
STANDIN int cuptiActivityEnableContext(Handle, std::uint32_t kind) { return want(kind, true); }
STANDIN int cuptiActivityDisableContext(Handle, std::uint32_t kind) { return want(kind, false); }
STANDIN int cuptiActivityFlushAll(std::uint32_t) {
  flush();
  return kSuccess;
}
STANDIN int cuptiActivityFlush(Handle, std::uint32_t, std::uint32_t) { return cuptiActivityFlushAll(0); }
STANDIN int cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t used, std::uint8_t** record) {
  if (buffer == nullptr || record == nullptr) return kInvalidParameter;
  std::uint8_t* next = buffer;
  Kind kind{};
  if (*record != nullptr) {
    std::memcpy(&kind, *record, sizeof kind);
    next = *record + size_of(kind);
  }
  if (next >= buffer + used) return kMaxReached;
  std::memcpy(&kind, next, sizeof kind);
  if (size_of(kind) == 0) return kInvalidKind;
  *record = next;
  return kSuccess;
}
STANDIN int cuptiActivityGetNumDroppedRecords(Handle, std::uint32_t, std::size_t* out) {
  if (out == nullptr) return kInvalidParameter;
  *out = take_dropped();
  return kSuccess;
}
STANDIN int cuptiActivityPushExternalCorrelationId(std::uint32_t kind, std::uint64_t number) {
  push_external(kind, number);
  return kSuccess;
}
STANDIN int cuptiActivityPopExternalCorrelationId(std::uint32_t kind, std::uint64_t* last) {
  return pop_external(kind, last) ? kSuccess : kQueueEmpty;
}

// Calls have no effect if they configure the internals of NVIDIA's library, or request records that the stand-in always
// writes or never writes.
#define WITHOUT_EFFECT(name) \
  STANDIN int name() { return kSuccess; }
WITHOUT_EFFECT(cuptiActivitySetAttribute)
WITHOUT_EFFECT(cuptiActivityFlushPeriod)
WITHOUT_EFFECT(cuptiActivityEnableAllSyncRecords)
WITHOUT_EFFECT(cuptiActivityEnableCudaEventDeviceTimestamps)
WITHOUT_EFFECT(cuptiActivityEnableDriverApi)
WITHOUT_EFFECT(cuptiActivityEnableLatencyTimestamps)
WITHOUT_EFFECT(cuptiActivityEnableRuntimeApi)

// ----------------------------------------------------------------------------------------------------------- callbacks

STANDIN int cuptiSubscribe(void** out, Callback callback, void* user) {
  if (out == nullptr) return kInvalidParameter;
  Callback nobody = nullptr;
  if (!subscriber.callback.compare_exchange_strong(nobody, callback)) return kSubscribed;
  subscriber.user = user;  // no call is reported to the subscriber yet
  *out = &subscriber;
  return kSuccess;
}
STANDIN int cuptiUnsubscribe(void*) {
  subscriber.callback = nullptr;
  return want_calls(false, kDriverDomain, 0, kMaxCalls);
}
STANDIN int cuptiEnableCallback(std::uint32_t enable, void*, std::uint32_t domain, std::uint32_t number) {
  return want_calls(enable != 0, domain, number, number + std::size_t{1});
}
STANDIN int cuptiEnableDomain(std::uint32_t enable, void*, std::uint32_t domain) {
  return want_calls(enable != 0, domain, 0, kMaxCalls);
}
STANDIN int cuptiEnableAllDomains(std::uint32_t enable, void*) {
  return want_calls(enable != 0, kDriverDomain, 0, kMaxCalls);
}
STANDIN int cuptiGetCallbackName(std::uint32_t domain, std::uint32_t number, const char** out) {
  const Call* call = call_numbered(domain, number);
  if (call == nullptr || out == nullptr) return kInvalidParameter;
  *out = call->name;
  return kSuccess;
}
STANDIN int cuptiFinalize() {
  for (auto& kind : wanted) kind = false;
  cuptiUnsubscribe(nullptr);
  flush();
  return kSuccess;
}

// ------------------------------------------------------------------------------------------------------------- numbers

STANDIN int cuptiGetContextId(Handle context, std::uint32_t* out) {
  if (out == nullptr) return kInvalidParameter;
  if (context == nullptr) return kInvalidContext;
  *out = context_number(context);
  return kSuccess;
}
STANDIN int cuptiGetDeviceId(Handle context, std::uint32_t* out) {
  if (out == nullptr) return kInvalidParameter;
  auto* push = driver<int(Handle)>("cuCtxPushCurrent_v2");
  auto* pop = driver<int(Handle*)>("cuCtxPopCurrent_v2");
  if (context == nullptr || push == nullptr || push(context) != 0) return kInvalidContext;
  int device = 0;
  const int result = ask("cuCtxGetDevice", device);
  pop(&context);
  *out = static_cast<std::uint32_t>(device);
  return result;
}
STANDIN int cuptiGetStreamId(Handle, Handle stream, std::uint32_t* out) { return stream_number(stream, out); }
STANDIN int cuptiGetStreamIdEx(Handle, Handle stream, std::uint8_t per_thread, std::uint32_t* out) {
  Handle const of_thread = reinterpret_cast<Handle>(std::uintptr_t{2});
  return stream_number(stream == nullptr && per_thread != 0 ? of_thread : stream, out);
}
STANDIN int cuptiSetThreadIdType(int type) {
  system_threads = type == 1;
  return kSuccess;
}
STANDIN int cuptiGetThreadIdType(int* out) {
  if (out == nullptr) return kInvalidParameter;
  *out = system_threads;
  return kSuccess;
}
