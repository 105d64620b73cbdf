#include "trace/whatif/together.hpp"

#include <algorithm>
#include <random>

namespace ration::trace {
namespace {

constexpr int kDraws = 1000;
constexpr std::uint64_t kMostCopies = 256;

/// Adds a point. Of two points at the same moment, keeps the larger.
void add(std::vector<Curve::Point>& points, std::int64_t time, std::uint64_t bytes) {
  if (!points.empty() && points.back().begin == time)
    points.back().bytes = std::max(points.back().bytes, bytes);
  else if (points.empty() || points.back().bytes != bytes)
    points.push_back({time, bytes});
}

/// Returns the highest value in each of `count` equal parts of the run.
std::vector<std::uint64_t> highest(const std::vector<Curve::Point>& points, std::int64_t length, std::size_t count) {
  std::vector<std::uint64_t> parts(count, 0);
  const auto part_of = [&](std::int64_t time) {
    const auto share = static_cast<double>(time) / static_cast<double>(std::max<std::int64_t>(length, 1));
    return std::min(static_cast<std::size_t>(share * static_cast<double>(count)), count - 1);
  };
  for (std::size_t point = 0; point < points.size(); ++point) {
    const std::int64_t end = point + 1 < points.size() ? points[point + 1].begin : length;
    for (std::size_t part = part_of(points[point].begin); part <= part_of(end); ++part)
      parts[part] = std::max(parts[part], points[point].bytes);
  }
  return parts;
}

}  // namespace

Curve curve_of(const Recording& recording) {
  std::vector<std::vector<Curve::Point>> devices(recording.header().devices.size());
  std::vector<std::int64_t> held(devices.size()), peak(devices.size());
  Curve curve;
  recording.read([&](const Event& event) {
    curve.length = std::max(curve.length, event.time);
    if (event.charged == 0 || event.device >= devices.size() || event.account == Account::kPinnedHost) return true;
    std::int64_t& sum = held[event.device];
    sum += event.charged;
    peak[event.device] = std::max(peak[event.device], sum);
    add(devices[event.device], event.time, static_cast<std::uint64_t>(std::max<std::int64_t>(sum, 0)));
    return true;
  });
  ++curve.length;  // what is held at the last event lasts for one nanosecond
  if (devices.empty()) return curve;
  const auto most = static_cast<std::size_t>(std::max_element(peak.begin(), peak.end()) - peak.begin());
  curve.peak = Bytes{static_cast<std::uint64_t>(peak[most])};
  curve.points = std::move(devices[most]);
  if (curve.points.size() <= kMostPoints) return curve;
  curve.is_simplified = true;
  const auto parts = highest(curve.points, curve.length, kMostPoints);
  curve.points.clear();
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const double share = static_cast<double>(part) / static_cast<double>(parts.size());
    add(curve.points, static_cast<std::int64_t>(share * static_cast<double>(curve.length)), parts[part]);
  }
  return curve;
}

std::vector<Starts> starts_over(const Curve& first, const Curve& second, Bytes size) {
  std::vector<Starts> found;
  for (std::size_t i = 0; i < first.points.size(); ++i) {
    const std::uint64_t held = first.points[i].bytes;
    for (std::size_t j = 0; j < second.points.size(); ++j) {
      if (Bytes{held + second.points[j].bytes} <= size) continue;
      const std::size_t begin = j;
      while (j + 1 < second.points.size() && Bytes{held + second.points[j + 1].bytes} > size) ++j;
      found.emplace_back(first.points[i].begin - second.end(j), first.end(i) - second.points[begin].begin);
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<Starts> joined;
  for (const Starts& starts : found) {
    if (joined.empty() || starts.first >= joined.back().second)
      joined.push_back(starts);
    else
      joined.back().second = std::max(joined.back().second, starts.second);
  }
  return joined;
}

Copies copies_on(const Curve& run, Bytes size) {
  Copies copies;
  if (run.peak == Bytes{0}) return copies;
  copies.always = size.count() / run.peak.count();
  if (copies.always == 0) return copies;
  constexpr std::size_t kParts = kMostPoints / 2;
  const auto parts = highest(run.points, run.length, kParts);
  std::mt19937 random(1);
  std::vector<int> fitting;
  std::vector<std::uint64_t> sum;
  for (int draw = 0; draw < kDraws; ++draw) {
    sum.assign(2 * kParts, 0);
    std::uint64_t count = 0;
    for (bool fits = true; count <= kMostCopies; ++count) {
      const std::size_t start = count == 0 ? 0 : random() % kParts;
      for (std::size_t part = 0; part < kParts; ++part) {
        sum[start + part] += parts[part];
        fits = fits && Bytes{sum[start + part]} <= size;
      }
      if (!fits) break;
    }
    for (std::uint64_t more = copies.always; more < count; ++more) {
      if (fitting.size() <= more - copies.always) fitting.push_back(0);
      ++fitting[more - copies.always];
    }
  }
  for (const int times : fitting) copies.often.push_back(static_cast<double>(times) / kDraws);
  return copies;
}

}  // namespace ration::trace
