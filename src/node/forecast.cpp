#include "node/forecast.hpp"

namespace ration::node {

void Forecast::note(const std::string& uuid, Bytes used, std::uint64_t now_ns) {
  auto& seen = seen_[uuid];
  if (!seen.empty() && now_ns < seen.back().first) seen.clear();  // the clock was set back
  if (seen.empty() || now_ns - seen.back().first >= kStepNs) seen.emplace_back(now_ns, used.count());
  while (now_ns - seen.front().first > kSpanNs) seen.pop_front();
}

std::optional<std::uint64_t> Forecast::seconds_to_full(const std::string& uuid, Bytes free) const {
  const auto found = seen_.find(uuid);
  if (found == seen_.end() || found->second.empty()) return std::nullopt;
  const auto& seen = found->second;
  if (seen.back().first - seen.front().first < kLeastNs) return std::nullopt;
  // Least squares over seconds and bytes since the first look.
  double n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  for (const auto& [time, bytes] : seen) {
    const double x = static_cast<double>(time - seen.front().first) / 1e9, y = static_cast<double>(bytes);
    n += 1, sum_x += x, sum_y += y, sum_xx += x * x, sum_xy += x * y;
  }
  const double spread = n * sum_xx - sum_x * sum_x;
  const double slope = spread > 0 ? (n * sum_xy - sum_x * sum_y) / spread : 0;
  constexpr double kLeastSlope = 1 << 20;  // a MiB a second fills 16 GiB in four hours and a half: less is noise
  if (slope < kLeastSlope / 60) return std::nullopt;
  return static_cast<std::uint64_t>(static_cast<double>(free.count()) / slope);
}

}  // namespace ration::node
