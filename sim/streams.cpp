// Streams and events. Work takes effect when it is put on a stream; stream_time.hpp decides when it counts as done.
#include <atomic>
#include <cstring>
#include <unordered_set>

#include "capture.hpp"
#include "contents.hpp"
#include "managed.hpp"
#include "stream_time.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

struct Stream {
  Context* context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t id = 0;
};
struct Event {
  unsigned flags = 0;
  bool recorded = false;
  Moment done = 0;
};

constexpr unsigned kDisableTiming = 2;

// Returns the objects behind the handles that programs hold. The sets are never destroyed, since atexit handlers call
// the driver.
auto& streams() {
  static auto* set = new std::unordered_set<Stream*>;
  return *set;
}
auto& events() {
  static auto* set = new std::unordered_set<Event*>;
  return *set;
}

/// Finds a stream. Returns false if there is none or it has no context. The default streams belong to the current
/// context.
bool find(CUstream handle, Stream& out) {
  static std::atomic<std::uint64_t> ids{16};
  if (reinterpret_cast<std::uintptr_t>(handle) <= 2) {
    out = {current(), 0, 0, reinterpret_cast<std::uintptr_t>(handle)};
    return current() != nullptr;
  }
  const std::lock_guard guard(driver().mutex);
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (!streams().contains(stream)) return false;
  if (stream->id == 0) stream->id = ids++;
  out = *stream;
  return true;
}

template <typename Value>
CUresult tell(CUstream handle, Value* out, Value (*of)(const Stream&), const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  Stream stream;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!find(handle, stream)) return CUDA_ERROR_INVALID_HANDLE;
  *out = of(stream);
  return CUDA_SUCCESS;
}

CUresult make_stream(CUstream* out, unsigned flags, int priority, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (out == nullptr || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto* stream = new Stream{current(), flags, std::max(-5, std::min(0, priority)), 0};
  const std::lock_guard guard(driver().mutex);
  streams().insert(stream);
  *out = reinterpret_cast<CUstream>(stream);
  return CUDA_SUCCESS;
}

CUresult complete(CUstream handle, bool synchronise, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  Stream stream;
  if (!find(handle, stream))
    return reinterpret_cast<std::uintptr_t>(handle) <= 2 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
  if (is_captured(handle)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (!synchronise) return has_passed(end_of(handle)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  finish(handle);
  arrive_managed();
  release_pools();
  return CUDA_SUCCESS;
}

CUresult record(CUevent handle, CUstream stream, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (capture_record(handle, stream)) return CUDA_SUCCESS;
  const Moment done = std::max(now(), end_of(stream));
  const std::lock_guard guard(driver().mutex);
  auto* event = reinterpret_cast<Event*>(handle);
  if (!events().contains(event)) return CUDA_ERROR_INVALID_HANDLE;
  event->recorded = true;
  event->done = done;
  return CUDA_SUCCESS;
}

CUresult known_event(CUevent handle, Event& out, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  const auto found = events().find(reinterpret_cast<Event*>(handle));
  if (found == events().end()) return CUDA_ERROR_INVALID_HANDLE;
  out = **found;
  return CUDA_SUCCESS;
}

CUresult wait_for(CUstream stream, CUevent handle, const char* function = __builtin_FUNCTION()) {
  Event event;
  if (capture_wait(stream, handle)) return ready(0, function);
  if (const CUresult state = known_event(handle, event, function); state != CUDA_SUCCESS) return state;
  if (!has_passed(event.done)) delay(stream, event.done);
  return CUDA_SUCCESS;
}

template <typename Value>
CUresult write_value(CUstream stream, CUdeviceptr address, Value value, const char* function = __builtin_FUNCTION()) {
  if (const CUresult state = ready(0, function); state != CUDA_SUCCESS) return state;
  if (address == 0 || address % sizeof value != 0) return CUDA_ERROR_INVALID_VALUE;
  if (capture_work(stream)) return CUDA_SUCCESS;
  if (!touch(address, sizeof value)) return CUDA_ERROR_OPERATING_SYSTEM;
  std::memcpy(reinterpret_cast<void*>(address), &value, sizeof value);
  return CUDA_SUCCESS;
}

}  // namespace

StreamKind kind_of(CUstream handle) {
  constexpr unsigned kNonBlocking = 1;
  Stream stream;
  return find(handle, stream) ? StreamKind{stream.context, (stream.flags & kNonBlocking) == 0}
                              : StreamKind{current(), true};
}

}  // namespace ration::sim

using namespace ration::sim;
using namespace ration::cuda;

RATION_ENTRY cuStreamCreate(CUstream* out, unsigned int flags) { return make_stream(out, flags, 0); }
RATION_ENTRY cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
  return make_stream(out, flags, priority);
}
RATION_ENTRY cuStreamDestroy_v2(CUstream handle) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (streams().erase(stream) == 0) return CUDA_ERROR_INVALID_HANDLE;
  delete stream;
  forget_stream_times(handle);
  return CUDA_SUCCESS;
}
RATION_ENTRY cuStreamDestroy(CUstream stream) { return cuStreamDestroy_v2(stream); }

// Defines an entry and its twin for the per-thread default stream.
#define BOTH(name, parameters, ...)                                              \
  RATION_ENTRY name parameters __VA_ARGS__ RATION_ENTRY name##_ptsz parameters { \
    stream = per_thread(stream);                                                 \
    __VA_ARGS__                                                                  \
  }

BOTH(cuStreamSynchronize, (CUstream stream), { return complete(stream, true); })
BOTH(cuStreamQuery, (CUstream stream), { return complete(stream, false); })
// A captured stream does not allow this query (measured on R580: tests/gpu, experiment 32).
BOTH(cuStreamGetDevice, (CUstream stream, CUdevice* out), {
  if (break_capture_of(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return tell<CUdevice>(stream, out, [](const Stream& s) { return ordinal_of(s.context->device); });
})
BOTH(cuStreamGetCtx, (CUstream stream, CUcontext* out),
     { return tell<CUcontext>(stream, out, [](const Stream& s) { return reinterpret_cast<CUcontext>(s.context); }); })
BOTH(cuStreamGetFlags, (CUstream stream, unsigned int* out),
     { return tell<unsigned int>(stream, out, [](const Stream& s) { return s.flags; }); })
BOTH(cuStreamGetPriority, (CUstream stream, int* out),
     { return tell<int>(stream, out, [](const Stream& s) { return s.priority; }); })
BOTH(cuStreamGetId, (CUstream stream, unsigned long long* out), {
  return tell<unsigned long long>(stream, out, [](const Stream& s) { return static_cast<unsigned long long>(s.id); });
})
BOTH(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int), { return wait_for(stream, event); })
BOTH(cuStreamAttachMemAsync, (CUstream stream, CUdeviceptr, std::size_t, unsigned int),
     { return complete(stream, true); })
BOTH(cuStreamWriteValue32, (CUstream stream, CUdeviceptr address, std::uint32_t value, unsigned int),
     { return write_value(stream, address, value); })
BOTH(cuStreamWriteValue64, (CUstream stream, CUdeviceptr address, std::uint64_t value, unsigned int),
     { return write_value(stream, address, value); })
BOTH(cuStreamWriteValue32_v2, (CUstream stream, CUdeviceptr address, std::uint32_t value, unsigned int),
     { return write_value(stream, address, value); })
BOTH(cuStreamWriteValue64_v2, (CUstream stream, CUdeviceptr address, std::uint64_t value, unsigned int),
     { return write_value(stream, address, value); })
BOTH(cuStreamAddCallback, (CUstream stream, void (*call)(CUstream, CUresult, void*), void* data, unsigned int), {
  if (const CUresult state = complete(stream, true); state != CUDA_SUCCESS) return state;
  if (call == nullptr) return CUDA_ERROR_INVALID_VALUE;
  call(stream, CUDA_SUCCESS, data);
  return CUDA_SUCCESS;
})
BOTH(cuLaunchHostFunc, (CUstream stream, void (*call)(void*), void* data), {
  if (call == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (capture_work(stream, CU_GRAPH_NODE_TYPE_HOST)) return CUDA_SUCCESS;
  if (const CUresult state = complete(stream, true); state != CUDA_SUCCESS) return state;
  call(data);
  return CUDA_SUCCESS;
})
BOTH(cuEventRecord, (CUevent event, CUstream stream), { return record(event, stream); })
BOTH(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned int), { return record(event, stream); })

RATION_ENTRY cuEventCreate(CUevent* out, unsigned int flags) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  if (out == nullptr || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  if (current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  auto* event = new Event{flags, false, 0};
  const std::lock_guard guard(driver().mutex);
  events().insert(event);
  *out = reinterpret_cast<CUevent>(event);
  return CUDA_SUCCESS;
}
// Writes a handle for which cuIpcOpenEventHandle() makes a new event. The new event can stand for that of another
// process, because work takes effect when it is put on a stream.
RATION_ENTRY cuIpcGetEventHandle(CUipcMemHandle* out, CUevent handle) {
  constexpr unsigned int kInterprocess = 4;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Event event;
  if (const CUresult state = known_event(handle, event); state != CUDA_SUCCESS) return state;
  if ((event.flags & kInterprocess) == 0) return CUDA_ERROR_INVALID_VALUE;
  *out = {};
  out->reserved[0] = 'e';
  return CUDA_SUCCESS;
}
RATION_ENTRY cuIpcOpenEventHandle(CUevent* out, CUipcMemHandle handle) {
  constexpr unsigned int kInterprocessWithoutTiming = 6;
  return handle.reserved[0] == 'e' ? cuEventCreate(out, kInterprocessWithoutTiming) : CUDA_ERROR_INVALID_HANDLE;
}
RATION_ENTRY cuEventDestroy_v2(CUevent handle) {
  if (const CUresult state = ready(); state != CUDA_SUCCESS) return state;
  const std::lock_guard guard(driver().mutex);
  auto* event = reinterpret_cast<Event*>(handle);
  if (events().erase(event) == 0) return CUDA_ERROR_INVALID_HANDLE;
  delete event;
  return CUDA_SUCCESS;
}
RATION_ENTRY cuEventDestroy(CUevent event) { return cuEventDestroy_v2(event); }
RATION_ENTRY cuEventQuery(CUevent handle) {
  Event event;
  const CUresult state = known_event(handle, event);
  return state == CUDA_SUCCESS && !has_passed(event.done) ? CUDA_ERROR_NOT_READY : state;
}
RATION_ENTRY cuEventSynchronize(CUevent handle) {
  Event event;
  const CUresult state = known_event(handle, event);
  if (state != CUDA_SUCCESS) return state;
  wait_until(event.done);
  release_pools();
  return CUDA_SUCCESS;
}
RATION_ENTRY cuEventElapsedTime_v2(float* milliseconds, CUevent from, CUevent to) {
  Event first, second;
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult state = known_event(from, first); state != CUDA_SUCCESS) return state;
  if (const CUresult state = known_event(to, second); state != CUDA_SUCCESS) return state;
  if (!first.recorded || !second.recorded || ((first.flags | second.flags) & kDisableTiming) != 0)
    return CUDA_ERROR_INVALID_HANDLE;
  if (!has_passed(first.done) || !has_passed(second.done)) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(second.done - first.done) * 1e-6F;
  return CUDA_SUCCESS;
}
RATION_ENTRY cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  return cuEventElapsedTime_v2(milliseconds, from, to);
}
