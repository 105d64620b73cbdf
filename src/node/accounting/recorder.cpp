#include "node/accounting/recorder.hpp"

#include <algorithm>
#include <cstdlib>

#include "node/events/event_text.hpp"

namespace ration::node {

Events Recorder::take(const Moment& moment, const Effects& effects) {
  history::Sample sample = sample_of(moment, effects.ended_workloads);
  constexpr std::int64_t kMaxCountedNs = 60'000'000'000;
  const std::int64_t elapsed = sample.time_ns - latest_.time_ns;
  if (elapsed > 0 && elapsed <= kMaxCountedNs)
    counters_.count_time(latest_, static_cast<double>(elapsed) / 1e9, moment.snapshot);
  Events events;
  if (!sample.devices.empty()) events = record(sample);
  for (const EndedRun& ended : effects.ended_runs) history_.run_ended(ended.run, ended.ended, ended.exit_code);
  changed_ = !std::ranges::equal(sample.workloads, latest_.workloads, {}, &history::WorkloadSample::used,
                                 &history::WorkloadSample::used);
  latest_ = std::move(sample);
  return events;
}

Events Recorder::record(const history::Sample& sample) {
  const auto recorded = history_.record(sample);
  const Message problem = recorded ? Message() : recorded.error().what;
  const bool is_news = std::exchange(sample_problem_, problem) != problem;
  if (!recorded) return is_news ? Events{daemon_event(problem)} : Events{};
  const auto apart = static_cast<std::uint64_t>(std::abs(sample.time_ns - recorded_ns_));
  const bool back = *recorded == history::Recorded::kClockBack;
  if (!back) recorded_ns_ = sample.time_ns;
  const bool was_back = std::exchange(clock_is_back_, back);
  if (*recorded == history::Recorded::kGap) return {gap_event(apart)};
  return back && !was_back ? Events{clock_back_event(apart)} : Events{};
}

void Recorder::note_tick(double seconds) {
  ++counters_.ticks;
  counters_.tick_seconds += seconds;
}

std::vector<history::Event> Recorder::store(Events events) {
  for (Event& event : events)
    if (event.time == 0) event.time = history::now_ms();
  counters_.count(events);
  flood_.limit(events, history::now_ms());
  std::vector<history::Event> records;
  for (const Event& event : events) records.push_back(to_record(event));
  if (records.empty()) return records;
  if (const auto stored = history_.append(records); !stored) problem_ = stored.error().what;
  return records;
}

Events Recorder::commit() {
  if (damaged_.exchange(false)) (void)history_.check();
  const auto stored = history_.commit();
  problem_ = stored ? Message() : stored.error().what;
  Events events;
  for (const Message& notice : history_.take_notices()) events.push_back(daemon_event(set_aside_ = notice));
  return events;
}

Recorder::Status Recorder::status() const {
  return {history_.committed_to(), problem_.empty() ? sample_problem_ : problem_, set_aside_};
}

}  // namespace ration::node
