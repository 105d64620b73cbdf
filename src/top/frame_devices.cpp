#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "top/frame_parts.hpp"

namespace ration::top {
namespace {

// The colours are those of the dashboard (web/src/logic/palette.ts), as far as a terminal of eight colours has them.
constexpr std::array<Pattern, 8> kPatterns{{{"█", {Colour::kBlue}},
                                            {"▓", {Colour::kYellow}},
                                            {"▒", {Colour::kGreen}},
                                            {"▚", {Colour::kMagenta}},
                                            {"▞", {Colour::kCyan}},
                                            {"▤", {Colour::kRed}},
                                            {"▥", {Colour::kWhite}},
                                            {"◆", {Colour::kYellow}}}};
constexpr Pattern kUngoverned{"░", {Colour::kRed}};
constexpr Pattern kUnexplained{"≡", kDim};
constexpr Bytes kMaxSum{std::uint64_t{1} << 50U};  // bound of a reported number, so that no sum overflows
constexpr std::size_t kMaxTenants = 6;             // tenants named on one device; the others share one part

Bytes held(const std::optional<Bytes>& bytes) { return bytes.value_or(Bytes{0}); }

/// Returns the bytes of free memory that are kept: for the holders of guarantees, for slices and by keep_free.
Bytes kept_and_free(const Device& device) {
  if (!device.free || !device.available) return Bytes{0};
  return *device.free - std::min(*device.free, *device.available);
}

void draw_bar(Grid& grid, int row, int column, int width, const View& view, const Device& device) {
  const auto total = static_cast<double>(held(device.total).count());
  if (total <= 0 || width <= 0) return;
  // Each part ends at the rounded sum of all parts so far, so that rounding errors do not accumulate. A part that is
  // not empty has at least one cell.
  double sum = 0;
  int at = 0;
  const auto stretch = [&](Bytes bytes, const Pattern& pattern) {
    sum += static_cast<double>(bytes.count());
    const int end = std::clamp(static_cast<int>(sum / total * width + 0.5), bytes > Bytes{0} ? at + 1 : at, width);
    for (; at < end; ++at) grid.put(row, column + at, pattern.glyph, pattern.style, 1);
  };
  for (const Part& part : parts_of(view, device)) stretch(part.used, part.pattern);
  stretch(kept_and_free(device), {"╌", kDim});
  if (at < width && std::any_of(view.model.rows.begin(), view.model.rows.end(), [&](const Row& each) {
        return each.governed && each.gpu == device.gpu && held(each.guarantee) > Bytes{0};
      }))
    grid.put(row, column + at++, "┊", kBold, 1);
  for (; at < width; ++at) grid.put(row, column + at, "·", kDim, 1);
}

std::string percent(const Device& device) {
  if (!device.used || !device.total || *device.total == Bytes{0}) return "n/a";
  return fmt::format("{:.0f}%",
                     100 * static_cast<double>(device.used->count()) / static_cast<double>(device.total->count()));
}

std::string sensors(const Device& device) {
  std::string text = device.utilisation ? fmt::format("util {}%", *device.utilisation) : "util n/a";
  if (device.temperature) text += fmt::format("  {}°C", *device.temperature);
  return text;
}

void draw_compact(Grid& grid, int row, const View& view, const Device& device) {
  const int bar = std::clamp(grid.columns() - 34, 6, 40);
  int at = grid.put(row, 0, fmt::format("GPU {} ", device.gpu), kBold);
  draw_bar(grid, row, at, bar, view, device);
  at += bar + 1;
  at += grid.put(row, at,
                 fmt::format("{:>4} {} of {}", percent(device), short_size(device.used, view.units),
                             short_size(device.total, view.units)));
  grid.put(row, at + 2, sensors(device));
}

std::string text_of(const View& view, const Part& part) {
  std::string used = short_size(part.used, view.units);
  const std::string limit = part.limit ? "/" + short_size(part.limit, view.units) : "";
  // The unit is written once if both numbers have the same unit: `12.1/16.0G`.
  if (!limit.empty() && std::isalpha(static_cast<unsigned char>(used.back())) != 0 && used.back() == limit.back())
    used.pop_back();
  return fmt::format("{} {}{}", part.label, used, limit);
}

void draw_legend(Grid& grid, int row, const View& view, const Device& device) {
  int at = 0;
  const auto parts = parts_of(view, device);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    const std::string label = text_of(view, part);
    const int needed = width_of(label) + 2 + (part.full ? 5 : 0);
    if (at + needed > grid.columns() && i > 0) {
      grid.put(row, at, fmt::format("+{}", parts.size() - i), kDim);
      return;
    }
    at += grid.put(row, at, part.pattern.glyph, part.pattern.style) + 1;
    at += grid.put(row, at, label);
    if (part.full) at += grid.put(row, at, " FULL", kBad);
    at += 2;
  }
  if (!parts.empty()) return;
  const bool is_free = device.used && *device.used == Bytes{0};
  grid.put(row, at, is_free ? "nothing holds memory" : "not known who holds memory", kDim);
}

}  // namespace

Pattern pattern_of(const View& view, const std::string& tenant) {
  const auto found = std::find(view.patterns.begin(), view.patterns.end(), tenant);
  return kPatterns[static_cast<std::size_t>(found - view.patterns.begin()) % kPatterns.size()];
}

std::vector<Part> parts_of(const View& view, const Device& device) {
  std::map<std::string, Part> tenants;
  for (const Row& row : view.model.rows) {
    if (!row.governed || row.gpu != device.gpu) continue;
    Part& part = tenants[row.tenant];
    part.used += std::min(held(row.used), kMaxSum);
  }
  for (const TenantAccount& account : view.model.accounts)
    if (const auto found = tenants.find(account.tenant);
        found != tenants.end() && account.gpu == device.gpu && account.limit)
      found->second.limit = account.limit;
  std::vector<Part> parts;
  for (auto& [name, part] : tenants) {
    part.label = name;
    part.full = part.limit && part.used + kGranule > *part.limit;
    parts.push_back(part);
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& one, const Part& other) { return one.used > other.used; });
  if (parts.size() > kMaxTenants) {
    Part others{fmt::format("{} others", parts.size() - kMaxTenants), {"+", kPlain}, {}, {}, false};
    for (std::size_t i = kMaxTenants; i < parts.size(); ++i) others.used += parts[i].used;
    parts.resize(kMaxTenants);
    parts.push_back(others);
  }
  for (Part& part : parts)
    if (part.pattern.glyph == nullptr) part.pattern = pattern_of(view, part.label);
  if (held(device.ungoverned) > Bytes{0}) parts.push_back({"ungoverned", kUngoverned, *device.ungoverned, {}, false});
  if (held(device.unexplained) > Bytes{0}) parts.push_back({"driver", kUnexplained, *device.unexplained, {}, false});
  return parts;
}

int draw_device(Grid& grid, int row, const View& view, const Device& device, bool compact) {
  if (compact) {
    draw_compact(grid, row, view, device);
    return 1;
  }
  const Bytes kept = kept_and_free(device);
  const std::string numbers =
      fmt::format("used {}  free {}{}", short_size(device.used, view.units), short_size(device.free, view.units),
                  kept > Bytes{0} ? fmt::format(", {} kept", short_size(kept, view.units)) : "");
  const int numbers_width = width_of(numbers);
  const int room = std::max(0, grid.columns() - numbers_width - 1);
  grid.put(row, 0, fmt::format("GPU {} {}  {}", device.gpu, device.name, short_size(device.total, view.units)), kBold,
           room);
  grid.put_right(row, 0, numbers, grid.columns());
  std::string behind = fmt::format("{:>4}  {}", percent(device), sensors(device));
  if (device.seconds_to_full) behind += "  full in " + short_time(*device.seconds_to_full);
  const int bar = std::max(8, grid.columns() - 1 - std::max(28, width_of(behind) + 2));
  draw_bar(grid, row + 1, 1, bar, view, device);
  grid.put(row + 1, bar + 2, behind, device.seconds_to_full ? kWarn : kPlain);
  draw_legend(grid, row + 2, view, device);
  return 3;
}

}  // namespace ration::top
