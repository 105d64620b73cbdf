#include "node/watch/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace ration::node {
namespace {

/// Returns true if usage grew between most samples of the last minute. A few steps, such as programs that start, are no
/// trend.
template <typename Looks>
bool grew_most_of_the_minute(const Looks& seen, std::uint64_t minute_ns) {
  std::size_t intervals = 0, grown = 0;
  for (std::size_t i = 1; i < seen.size(); ++i) {
    if (seen[i].first + minute_ns <= seen.back().first) continue;
    ++intervals;
    if (seen[i].second > seen[i - 1].second) ++grown;
  }
  return grown * 2 > intervals;
}

}  // namespace

void Forecast::note(const std::string& name, Bytes used, std::uint64_t now_ns) {
  const auto [place, is_new] = seen_.try_emplace(name);
  // Forgets names without recent samples, so that programs cannot make the table grow for ever.
  if (is_new)
    std::erase_if(seen_, [&](const auto& entry) {
      return !entry.second.empty() && now_ns > entry.second.back().first + kSpanNs;
    });
  auto& seen = place->second;
  if (!seen.empty() && now_ns < seen.back().first) seen.clear();  // the clock was set back
  if (seen.empty() || now_ns - seen.back().first >= kStepNs) seen.emplace_back(now_ns, used.count());
  while (now_ns - seen.front().first > kSpanNs) seen.pop_front();
}

std::optional<std::uint64_t> Forecast::seconds_to_full(const std::string& name, Bytes free) const {
  const auto found = seen_.find(name);
  if (found == seen_.end() || found->second.empty()) return std::nullopt;
  const auto& seen = found->second;
  if (seen.back().first - seen.front().first < kMinSpanNs || !grew_most_of_the_minute(seen, kMinSpanNs))
    return std::nullopt;
  // Requires that usage rises by a good part of the growth from each third of the time to the next, unlike in a single
  // step.
  const auto level = [&](std::size_t third) {
    const std::size_t begin = third * seen.size() / 3, end = (third + 1) * seen.size() / 3;
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += static_cast<double>(seen[i].second);
    return sum / static_cast<double>(std::max<std::size_t>(end - begin, 1));
  };
  const double first = level(0), second = level(1), third = level(2), least = (third - first) / 5;
  if (third <= first || second - first < least || third - second < least ||
      static_cast<double>(seen.back().second) < third)
    return std::nullopt;
  // Fits a line by least squares, over seconds and bytes since the first sample.
  double n = 0, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  for (const auto& [time, bytes] : seen) {
    const double x = static_cast<double>(time - seen.front().first) / 1e9, y = static_cast<double>(bytes);
    n += 1, sum_x += x, sum_y += y, sum_xx += x * x, sum_xy += x * y;
  }
  const double spread = n * sum_xx - sum_x * sum_x;
  const double slope = spread > 0 ? (n * sum_xy - sum_x * sum_y) / spread : 0;
  constexpr double kMinSlope = 1 << 20;  // less than a MiB a minute is noise: 16 GiB would take eleven days
  if (slope < kMinSlope / 60) return std::nullopt;
  return static_cast<std::uint64_t>(static_cast<double>(free.count()) / slope);
}

void forecast_devices(Forecast& forecast, Snapshot& snapshot, std::uint64_t now_ns) {
  std::map<int, Bytes> reachable;  // bytes that growing workloads may still take, by device
  const auto grows = [&](const std::string& name, Bytes used) {
    forecast.note(name, used, now_ns);
    return forecast.seconds_to_full(name, kUnlimited).has_value();
  };
  for (const AccountView& account : snapshot.accounts)
    if (account.gpu && grows(fmt::format("{} on GPU {}", account.path, *account.gpu), account.used))
      reachable[*account.gpu] += account.limit - std::min(account.used, account.limit);
  for (DeviceView& device : snapshot.devices) {
    const auto used = device.used();
    if (!used || !device.device.free) continue;
    forecast.note(device.device.uuid, *used, now_ns);
    // Memory outside of workloads has no limit.
    const Bytes governed = std::min(*used, device.governed);
    const bool others_grow = grows(device.device.uuid + " ungoverned", *used - governed);
    if (others_grow || reachable[device.device.index] >= *device.device.free)
      device.seconds_to_full = forecast.seconds_to_full(device.device.uuid, *device.device.free);
  }
}

void forecast_limits(Forecast& forecast, Snapshot& snapshot, std::uint64_t now_ns) {
  std::map<std::pair<std::string, int>, std::pair<Bytes, Bytes>> sums;  // usage and limit
  for (const AccountView& account : snapshot.accounts) {
    if (!account.gpu) continue;
    auto& [used, limit] = sums[{account.tenant, *account.gpu}];
    used += account.used;
    limit += account.limit;
  }
  for (const auto& [place, sum] : sums) {
    const std::string name = fmt::format("tenant {} on GPU {}", place.first, place.second);
    forecast.note(name, sum.first, now_ns);
    const Bytes headroom = sum.second - std::min(sum.first, sum.second);
    if (const auto seconds = forecast.seconds_to_full(name, headroom)) snapshot.seconds_to_limit[place] = *seconds;
  }
}

}  // namespace ration::node
