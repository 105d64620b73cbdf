#include "history/series.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "history/retention.hpp"
#include "history/schema.hpp"

namespace ration::history {
namespace {

constexpr std::int64_t kMaxPoints = 10'000;

struct Bucket {
  std::int64_t maximum = 0, limit = 0, ms = 0;
  __int128 sum = 0;
  bool seen = false;
};

// Returns the finest resolution that still covers the beginning of the window, or a coarser one with enough points.
std::size_t choose_level(const SeriesQuestion& question, TimeMs recorded_to) {
  const TimeMs wanted = (question.to - question.from) / question.points;
  std::size_t level = 0;
  while (level + 1 < kResolutions.size() &&
         (kResolutions[level + 1].width <= wanted || question.from < recorded_to - kResolutions[level].kept))
    ++level;
  return level;
}

/// The stored lines that the answer uses.
struct StoredLines {
  std::map<std::int64_t, std::string> names;  ///< the answer's names, by the number of the stored line
  std::int64_t capacity = 0;                  ///< total of the devices in the question
};

StoredLines find_lines(Database& database, const SeriesQuestion& question) {
  StoredLines found;
  std::int64_t device_id = 0;
  std::map<std::int64_t, std::string> uuids;
  Statement devices(database, "SELECT id, uuid, capacity FROM devices");
  while (devices.row()) {
    uuids[devices.integer(0)] = devices.text(1);
    if (question.uuid.empty() || question.uuid == devices.text(1)) found.capacity += devices.integer(2);
    if (question.uuid == devices.text(1)) device_id = devices.integer(0);
  }
  if (!question.uuid.empty() && device_id == 0) return found;  // the device was never recorded
  const auto is_asked_for = [&](std::int64_t device, const std::string& name) {
    return (device_id == 0 || device_id == device) && (question.name.empty() || question.name == name);
  };
  if (question.by == SeriesQuestion::By::kDevice) {
    for (const auto& [id, uuid] : uuids)
      if (is_asked_for(id, uuid)) found.names[-id] = uuid;
    return found;
  }
  Statement lines(database, "SELECT id, name, device FROM lines WHERE kind = ?");
  lines.with(question.by == SeriesQuestion::By::kTenant ? 1 : 2);
  while (lines.row())
    if (is_asked_for(lines.integer(2), lines.text(1))) found.names[lines.integer(0)] = lines.text(1);
  return found;
}

using Buckets = std::map<std::int64_t, std::vector<Bucket>>;

/// Returns the buckets of each stored line. A coarser resolution lacks the slot that is not over yet, so the points
/// after its last slot come from the next finer resolution.
Buckets read_points(Database& database, const Series& series, const StoredLines& wanted, std::size_t level) {
  Buckets stored;
  const auto count = static_cast<std::size_t>((series.to - series.from) / series.step);
  TimeMs begin = series.from;
  for (std::size_t finer = level + 1; finer-- > 0;) {
    const TimeMs until =
        finer == 0 ? series.to : std::min(series.to, read_mark(database, fmt::format("rolled_{}", finer)));
    if (until <= begin) continue;
    const TimeMs slot_width = kResolutions[finer].width;
    Statement points(database,
                     "SELECT slot, line, maximum, average, ms, limited FROM points "
                     "WHERE level = ? AND slot >= ? AND slot < ?");
    points.with(static_cast<std::int64_t>(finer), begin / slot_width, (until + slot_width - 1) / slot_width);
    while (points.row()) {
      if (!wanted.names.contains(points.integer(1))) continue;
      auto& buckets = stored[points.integer(1)];
      buckets.resize(count);
      const TimeMs at = points.integer(0) * slot_width;
      if (at < series.from || at >= series.to) continue;
      Bucket& bucket = buckets[static_cast<std::size_t>((at - series.from) / series.step)];
      bucket.seen = true;
      bucket.maximum = std::max(bucket.maximum, points.integer(2));
      bucket.limit = std::max(bucket.limit, points.integer(5));
      bucket.ms += points.integer(4);
      bucket.sum += __int128{points.integer(3)} * points.integer(4);
    }
    begin = until;
  }
  return stored;
}

/// Adds up lines of the same name. Their maxima on several devices may have been at different instants. The chart shows
/// the sum of the maxima, because any smaller value might be below the true maximum.
std::vector<SeriesLine> add_up(const Buckets& stored, const StoredLines& wanted) {
  std::map<std::string, SeriesLine> lines;
  for (const auto& [id, buckets] : stored) {
    const std::string& name = wanted.names.at(id);
    SeriesLine& line = lines[name];
    line.name = name;
    line.maximum.resize(buckets.size()), line.average.resize(buckets.size()), line.limit.resize(buckets.size());
    for (std::size_t place = 0; place < buckets.size(); ++place) {
      const Bucket& bucket = buckets[place];
      if (!bucket.seen) continue;
      const auto average = bucket.ms == 0 ? 0 : static_cast<std::int64_t>(bucket.sum / bucket.ms);
      line.maximum[place] = line.maximum[place].value_or(0) + bucket.maximum;
      line.average[place] = line.average[place].value_or(0) + average;
      line.limit[place] = line.limit[place].value_or(0) + bucket.limit;
    }
  }
  std::vector<SeriesLine> sums;
  for (auto& [name, line] : lines) sums.push_back(std::move(line));
  return sums;
}

std::vector<DenialMark> read_denials(Database& database, const SeriesQuestion& question, const Series& series) {
  std::vector<DenialMark> marks;
  Statement denials(database,
                    "SELECT time, id, tenant, workload FROM events WHERE type = 'denied' AND time >= ? AND time < ? "
                    "ORDER BY id DESC LIMIT 1000");
  denials.with(series.from, series.to);
  while (denials.row()) {
    const bool by_tenant = question.by == SeriesQuestion::By::kTenant;
    const std::string name = by_tenant ? denials.text(2) : denials.text(2) + "/" + denials.text(3);
    if (question.name.empty() || question.by == SeriesQuestion::By::kDevice || name == question.name)
      marks.push_back({denials.integer(0), denials.integer(1), name});
  }
  std::reverse(marks.begin(), marks.end());
  return marks;
}

}  // namespace

Result<Series> make_series(Database& database, const SeriesQuestion& asked) {
  SeriesQuestion question = asked;
  question.points = std::clamp<std::int64_t>(question.points, 1, kMaxPoints);
  if (question.from < 0 || question.from >= question.to) {
    return fail("E1916",
                fmt::format("the window from {} to {} is empty.", rfc3339(question.from), rfc3339(question.to)),
                "Give a window whose end is after its beginning.", 2);
  }
  const TimeMs recorded_to = read_mark(database, "recorded_to");
  const std::size_t level = choose_level(question, recorded_to);
  const TimeMs width = kResolutions[level].width;
  Series series;
  const TimeMs whole = question.to - question.from;
  series.step = std::max<TimeMs>((whole + width * question.points - 1) / (width * question.points), 1) * width;
  series.from = question.from / series.step * series.step;
  series.to = (question.to + series.step - 1) / series.step * series.step;
  const StoredLines lines = find_lines(database, question);
  series.capacity = lines.capacity;
  series.lines = add_up(read_points(database, series, lines, level), lines);
  series.denials = read_denials(database, question, series);
  Statement gaps(database, "SELECT begins, ends FROM gaps WHERE ends > ? AND begins < ? ORDER BY begins");
  gaps.with(series.from, series.to);
  while (gaps.row())
    series.gaps.push_back({std::max(gaps.integer(0), series.from), std::min(gaps.integer(1), series.to)});
  RATION_TRY(database.outcome());
  return series;
}

}  // namespace ration::history
