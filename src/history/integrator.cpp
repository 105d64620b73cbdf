#include "history/integrator.hpp"

#include <algorithm>

#include "history/retention.hpp"

namespace ration::history {
namespace {

// Calls `each(slot, ms)` for every slot of `width` that overlaps [from, to).
template <typename Each>
void for_each_part(TimeMs from, TimeMs to, TimeMs width, const Each& each) {
  while (from < to) {
    const TimeMs slot = from / width;
    const TimeMs end = std::min(to, (slot + 1) * width);
    each(slot, end - from);
    from = end;
  }
}

struct LineNow {
  std::int64_t used = 0, peak = 0, limited = 0;
};

}  // namespace

void Integrator::hold(TimeMs from, TimeMs to, const Instant& now) {
  for_each_part(from, to, kHourMs, [&](std::int64_t hour, TimeMs ms) {
    for (const auto& device : last_.devices) {
      auto& row = pending_.devices[{hour, device.device}];
      row.observed_ms += ms;
      row.capacity += device.capacity * ms;
      row.ungoverned += device.ungoverned * ms;
      row.unexplained += device.unexplained * ms;
    }
  });
  std::map<Pending::RunKeyNow, TimeMs> ends;
  for (const auto& holding : now.holdings)
    if (holding.ended != 0) ends[{holding.run, holding.device}] = std::clamp(holding.ended, from, to);
  for (const auto& holding : last_.holdings) {
    if (holding.ended != 0) continue;
    const auto end = ends.find({holding.run, holding.device});
    const TimeMs until = end == ends.end() ? to : end->second;
    for_each_part(from, until, kHourMs, [&](std::int64_t hour, TimeMs ms) {
      auto& row = pending_.usage[{hour, holding.run, holding.device}];
      row.ms += ms;
      row.used += holding.used * ms;
      row.limited += holding.limited * ms;
      row.guaranteed += holding.guaranteed * ms;
      row.held += std::max(holding.used, holding.guaranteed) * ms;
      row.peak = std::max(row.peak, holding.used);
      if (holding.device != kPinnedHost) pending_.devices[{hour, holding.device}].governed += holding.used * ms;
    });
    if (until > from && holding.device != kPinnedHost)
      pending_.levels[{holding.run, holding.device, holding.used / kLevelStep}] += until - from;
  }
}

void Integrator::gap(TimeMs from, TimeMs to) {
  for_each_part(from, to, kHourMs, [&](std::int64_t hour, TimeMs ms) {
    for (const auto& device : last_.devices) {
      auto& row = pending_.devices[{hour, device.device}];
      row.gap_ms += ms;
      row.capacity += device.capacity * ms;
      row.gap += device.capacity * ms;
    }
  });
  pending_.gaps[from] = to;
}

// Notes the peaks and denials of the stretch that ends now. They count in the hours of the stretch, and for a run even
// if nothing else of that run is known.
void Integrator::note_instant(const Instant& now, TimeMs from) {
  const TimeMs to = last_.time;  // time of the newest sample, because take() has set it before
  const std::int64_t last_hour = (to > from ? to - 1 : to) / kHourMs;
  for (const auto& device : now.devices) {
    auto& row = pending_.devices[{last_hour, device.device}];
    row.ungoverned_peak = std::max(row.ungoverned_peak, device.ungoverned);
  }
  for (const auto& holding : now.holdings) {
    // The instant of a peak is unknown, so a peak in a stretch that lies in two hours counts in both hours.
    for (std::int64_t hour = from / kHourMs; hour <= last_hour; ++hour) {
      auto& row = pending_.usage[{hour, holding.run, holding.device}];
      row.peak = std::max(row.peak, holding.peak);
      if (hour == last_hour) row.denials += holding.denials;
    }
    auto& run = pending_.runs[{holding.run, holding.device}];
    if (run.first == 0) run.first = to;
    run.last = to;
    run.peak = std::max(run.peak, holding.peak);
    run.denials += holding.denials;
    run.limited = holding.limited;
    run.guaranteed = holding.guaranteed;
  }
}

void Integrator::chart(TimeMs from, TimeMs to, const Instant& now) {
  // A line begins with the sum of the bytes that its runs held. The instant of each run's peak is unknown, so the chart
  // shows the sum of the peaks, bounded by the device's memory.
  std::map<std::int64_t, LineNow> lines;
  std::map<std::int64_t, std::int64_t> capacities;
  for (const auto& device : last_.devices) {
    lines[-device.device] = {device.driver_used, device.driver_used, device.capacity};
    capacities[device.device] = device.capacity;
  }
  for (const auto& device : now.devices) {
    if (const auto line = lines.find(-device.device); line != lines.end())
      line->second.peak = std::max(line->second.peak, device.driver_used);
  }
  std::map<Pending::RunKeyNow, std::int64_t> peaks;
  for (const auto& holding : now.holdings) peaks[{holding.run, holding.device}] = holding.peak;
  for (const auto& holding : last_.holdings) {
    if (holding.device == kPinnedHost) continue;
    const auto peak = peaks.find({holding.run, holding.device});
    for (const std::int64_t id : {holding.workload_line, holding.tenant_line}) {
      LineNow& line = lines[id];
      const std::int64_t capacity = capacities[holding.device];
      line.used += holding.used;
      line.peak =
          std::min(capacity, line.peak + (peak == peaks.end() ? holding.used : std::max(holding.used, peak->second)));
      line.peak = std::max(line.peak, line.used);
      line.limited = std::min(capacity, line.limited + holding.limited);
    }
  }
  for_each_part(from, to, kSecondMs, [&](std::int64_t slot, TimeMs ms) {
    for (const auto& [id, line] : lines) {
      auto& point = pending_.points[{slot, id}];
      point.maximum = std::max(point.maximum, line.peak);
      point.limited = std::max(point.limited, line.limited);
      point.ms += ms;
      point.sum += __int128{line.used} * ms;
    }
  });
  // A run in its first sample has no stretch yet, but may have peaked already.
  std::map<std::int64_t, LineNow> fresh;
  for (const auto& holding : now.holdings) {
    if (holding.device == kPinnedHost) continue;
    for (const std::int64_t id : {holding.workload_line, holding.tenant_line}) {
      if (!lines.contains(id)) fresh[id].peak += holding.peak, fresh[id].limited += holding.limited;
    }
  }
  for (const auto& [id, line] : fresh) {
    auto& point = pending_.points[{to / kSecondMs, id}];
    point.maximum = std::max(point.maximum, line.peak);
    point.limited = std::max(point.limited, line.limited);
  }
}

Recorded Integrator::take(Instant now) {
  Recorded outcome = Recorded::kHeld;
  const TimeMs from = started_ ? last_.time : now.time;
  const TimeMs elapsed = now.time - from;
  if (!started_) {
    outcome = Recorded::kFirst;
  } else if (elapsed < 0) {
    outcome = Recorded::kClockBack;
    now.time = from;
  } else if (elapsed > longest_step_) {
    outcome = Recorded::kGap;
    // A stretch longer than the history keeps means that the clock was wrong or the machine was off: watching begins
    // again.
    if (elapsed > kUsageKept)
      last_.devices.clear(), pending_.gaps[from] = now.time;
    else
      gap(from, now.time);
  } else if (elapsed > 0) {
    hold(from, now.time, now);
    if (charts_) chart(from, now.time, now);
  }
  for (const auto& device : last_.devices) pending_.spans[{device.device, device.begins}] = now.time;
  for (auto& device : now.devices) {
    const auto before = std::find_if(last_.devices.begin(), last_.devices.end(),
                                     [&](const auto& known) { return known.device == device.device; });
    device.begins = before == last_.devices.end() ? now.time : before->begins;
    pending_.spans[{device.device, device.begins}] = now.time;
  }
  last_.time = now.time;
  note_instant(now, outcome == Recorded::kHeld ? from : now.time);
  last_ = std::move(now);
  started_ = true;
  return outcome;
}

void Integrator::begin_anew(TimeMs from) {
  for (auto& device : last_.devices) device.begins = std::max(device.begins, from);
  std::map<Pending::SpanKey, TimeMs> spans;
  for (const auto& [key, ends] : pending_.spans) {
    TimeMs& end = spans[{key.device, std::max(key.begins, from)}];
    end = std::max(end, ends);
  }
  pending_.spans = std::move(spans);
}

}  // namespace ration::history
