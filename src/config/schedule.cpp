#include "config/schedule.hpp"

#include <algorithm>
#include <vector>

namespace ration::config {
namespace {

constexpr int kDay = 24 * 60, kWeek = 7 * kDay;  // in minutes

int length(const Hours& hours) { return hours.to > hours.from ? hours.to - hours.from : hours.to + kDay - hours.from; }

/// Returns the number of minutes from one minute of the week to the next occurrence of another.
int forward(int from, int to) { return ((to - from) % kWeek + kWeek) % kWeek; }

/// Returns the minutes of the week at which a schedule begins.
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

}  // namespace

bool holds_at(const Schedule& schedule, const LocalTime& now) { return holds(schedule, minute_of_week(now)); }

std::map<std::string, Sourced<Amount>> limits_at(const Configuration& configuration, const LocalTime& now) {
  std::map<std::string, Sourced<Amount>> limits;
  for (const Schedule& schedule : configuration.schedules)
    if (holds_at(schedule, now)) limits.insert(schedule.set.begin(), schedule.set.end());
  return limits;
}

}  // namespace ration::config
