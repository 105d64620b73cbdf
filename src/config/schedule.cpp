#include "config/schedule.hpp"

#include <algorithm>
#include <vector>

namespace ration::config {
namespace {

constexpr int kDay = 24 * 60, kWeek = 7 * kDay;  // in minutes

using Limits = std::map<std::string, Given<Amount>>;

int length(const Hours& hours) { return hours.to > hours.from ? hours.to - hours.from : hours.to + kDay - hours.from; }

/// Minutes from one minute of the week to another, going forward.
int forward(int from, int to) { return ((to - from) % kWeek + kWeek) % kWeek; }

/// Minutes of the week at which a schedule begins.
std::vector<int> begins(const Schedule& schedule) {
  std::vector<int> all;
  for (int day = 0; day < 7; ++day) {
    if (schedule.days.value.test(static_cast<std::size_t>(day))) all.push_back(day * kDay + schedule.when.value.from);
  }
  return all;
}

bool holds(const Schedule& schedule, int minute) {
  const auto starts = begins(schedule);
  return std::any_of(starts.begin(), starts.end(),
                     [&](int start) { return forward(start, minute) < length(schedule.when.value); });
}

int minute_of_week(const LocalTime& now) { return now.weekday * kDay + now.hour * 60 + now.minute; }

Limits limits_at(const Configuration& configuration, int minute) {
  Limits limits;
  for (const Schedule& schedule : configuration.schedules) {
    if (holds(schedule, minute)) limits.insert(schedule.set.begin(), schedule.set.end());
  }
  return limits;
}

bool same(const Limits& left, const Limits& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.value.text == other.second.value.text;
  });
}

}  // namespace

bool holds_at(const Schedule& schedule, const LocalTime& now) { return holds(schedule, minute_of_week(now)); }

Scheduled schedule_at(const Configuration& configuration, const LocalTime& now) {
  const int minute = minute_of_week(now);
  Scheduled result{limits_at(configuration, minute), {}};
  std::vector<int> waits;
  for (const Schedule& schedule : configuration.schedules) {
    for (const int start : begins(schedule)) {
      waits.push_back(forward(minute, start));
      waits.push_back(forward(minute, start + length(schedule.when.value)));
    }
  }
  std::sort(waits.begin(), waits.end());
  for (const int wait : waits) {
    if (same(limits_at(configuration, (minute + wait) % kWeek), result.limits)) continue;
    const int at = now.hour * 60 + now.minute + wait;
    result.next = Scheduled::Change{at / kDay, at % kDay / 60, at % 60};
    break;
  }
  return result;
}

}  // namespace ration::config
