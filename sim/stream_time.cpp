#include "stream_time.hpp"

#include <time.h>

#include <cerrno>
#include <map>
#include <tuple>

namespace ration::sim {
namespace {

using namespace cuda;

std::atomic<bool> work_takes_time{false};

/// The identity of a stream: its context, its handle and, for a per-thread default stream, its thread.
using Lane = std::tuple<Context*, CUstream, const void*>;

/// The moments when streams of a context are done: `all` of them, all `blocking` ones, and the `legacy` default stream.
struct Ends {
  Moment all = 0, blocking = 0, legacy = 0;
};

struct Times {
  std::mutex mutex;
  std::map<Lane, Moment> lanes;
  std::map<Context*, Ends> contexts;
};
Times& times() {
  static auto* all = new Times;  // never destroyed: atexit handlers call the driver
  return *all;
}

bool is_legacy(CUstream stream) { return reinterpret_cast<std::uintptr_t>(stream) <= 1; }

Lane lane_of(CUstream stream, Context* context) {
  thread_local char own_thread;
  const bool of_thread = stream == reinterpret_cast<CUstream>(std::uintptr_t{2});
  return {context, is_legacy(stream) ? nullptr : stream, of_thread ? &own_thread : nullptr};
}

/// Returns the moment when the stream is done. Requires the mutex.
Moment end_of(Times& all, CUstream stream, const StreamKind& kind) {
  const Ends& ends = all.contexts[kind.context];
  if (is_legacy(stream)) return ends.blocking;
  const auto own = all.lanes.find(lane_of(stream, kind.context));
  const Moment end = own == all.lanes.end() ? 0 : own->second;
  return kind.blocking ? std::max(end, ends.legacy) : end;
}

void end_at(Times& all, CUstream stream, const StreamKind& kind, Moment end) {
  Ends& ends = all.contexts[kind.context];
  all.lanes[lane_of(stream, kind.context)] = end;
  ends.all = std::max(ends.all, end);
  if (kind.blocking) ends.blocking = std::max(ends.blocking, end);
  if (is_legacy(stream)) ends.legacy = end;
}

}  // namespace

Moment now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

void occupy(CUstream stream, std::uint64_t nanoseconds) {
  if (nanoseconds == 0) return;
  work_takes_time = true;
  const StreamKind kind = kind_of(stream);
  Times& all = times();
  const std::lock_guard guard(all.mutex);
  end_at(all, stream, kind, std::max(now(), end_of(all, stream, kind)) + static_cast<Moment>(nanoseconds));
}

Moment end_of(CUstream stream) {
  if (!work_takes_time.load(std::memory_order_relaxed)) return 0;
  const StreamKind kind = kind_of(stream);
  Times& all = times();
  const std::lock_guard guard(all.mutex);
  return end_of(all, stream, kind);
}

void delay(CUstream stream, Moment until) {
  if (until == 0) return;
  const StreamKind kind = kind_of(stream);
  Times& all = times();
  const std::lock_guard guard(all.mutex);
  if (until > end_of(all, stream, kind)) end_at(all, stream, kind, until);
}

void wait_until(Moment moment) {
  if (moment == 0) return;
  const timespec until{static_cast<time_t>(moment / 1'000'000'000), static_cast<long>(moment % 1'000'000'000)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

void finish_context() {
  if (!work_takes_time.load(std::memory_order_relaxed)) return;
  Times& all = times();
  Moment end = 0;
  {
    const std::lock_guard guard(all.mutex);
    end = all.contexts[current()].all;
  }
  wait_until(end);
}

void forget_stream_times(CUstream stream) {
  Times& all = times();
  const std::lock_guard guard(all.mutex);
  std::erase_if(all.lanes, [&](const auto& lane) { return std::get<CUstream>(lane.first) == stream; });
}

void forget_stream_times(Context* context) {
  Times& all = times();
  const std::lock_guard guard(all.mutex);
  std::erase_if(all.lanes, [&](const auto& lane) { return std::get<Context*>(lane.first) == context; });
  all.contexts.erase(context);
}

}  // namespace ration::sim
