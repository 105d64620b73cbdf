// Draws the last ten minutes of each device: what it held, by tenant, and when requests were denied or waited.
#include <fmt/format.h>

#include <algorithm>

#include "base/time.hpp"
#include "top/frame_parts.hpp"

namespace ration::top {
namespace {

constexpr int kLabel = 7;                  // columns left of a chart: `141.0G `
constexpr int kNarrowest = 60;             // columns of a chart with its label, where two stand side by side
constexpr int kLowest = 3, kHighest = 16;  // rows of a chart without its strip
constexpr Pattern kOutside{"░", kDim};     // memory outside of workloads

/// The arrangement of the charts: `across` in a row of charts, `down` such rows, each chart `height` rows high.
struct Arrangement {
  int across = 1, down = 0, height = 0;

  [[nodiscard]] int rows() const { return down == 0 ? 0 : 1 + down * (height + 1); }
};

Arrangement arranged(const View& view, int columns, int room) {
  const int devices = static_cast<int>(view.model.devices.size());
  if (devices == 0 || view.once || view.detail == Detail::kCompact || columns < kNarrowest / 2) return {};
  Arrangement found;
  found.across = std::clamp(columns / kNarrowest, 1, devices);
  found.down = std::min((devices + found.across - 1) / found.across, (room - 1) / (kLowest + 1));
  if (found.down <= 0) return {};
  found.height = std::min(kHighest, (room - 1) / found.down - 1);
  return found;
}

/// One tenant, or what is outside of workloads, in one column: up to which share of the chart's height it reaches.
struct Layer {
  Pattern pattern;
  double top = 0;
};

/// Returns the layers of each column, lowest first.
std::vector<std::vector<Layer>> layers_of(const View& view, const Device& device, int columns, double whole) {
  const auto held = view.history.of_device(device.gpu, columns, view.now);
  const auto tenants = view.history.of_tenants(device.gpu, columns, view.now);
  std::vector<std::vector<Layer>> all(held.size());
  const auto number = [](const auto& bytes) { return static_cast<double>(bytes.value_or(Bytes{0}).count()); };
  for (std::size_t column = 0; column < held.size(); ++column) {
    double of_tenants = 0;
    for (const auto& [tenant, maxima] : tenants) of_tenants += number(maxima[column]);
    // Tenants reach their maxima at different seconds: together they are drawn no higher than the device's maximum.
    const double scale = held[column] && of_tenants > number(held[column]) ? number(held[column]) / of_tenants : 1;
    double sum = 0;
    const auto add = [&](const Pattern& pattern, double bytes) {
      if (bytes <= 0) return;
      sum += bytes;
      all[column].push_back({pattern, std::min(1.0, sum / whole)});
    };
    for (const auto& [tenant, maxima] : tenants) add(pattern_of(view, tenant), number(maxima[column]) * scale);
    add(kOutside, number(held[column]) - sum);
  }
  return all;
}

/// Draws one column of a chart of `height` rows whose lowest is `bottom`.
void draw_column(Grid& grid, int bottom, int column, int height, const std::vector<Layer>& layers) {
  if (layers.empty()) return;
  const double top = layers.back().top * height;
  for (int row = 0; row < height && row < top; ++row) {
    const double middle = std::min(row + 0.5, (row + top) / 2);
    const auto layer = std::ranges::find_if(layers, [&](const Layer& each) { return each.top * height > middle; });
    if (layer == layers.end()) return;
    // Only the highest cell is filled in part.
    const bool is_part = top < row + 1;
    grid.put(bottom - row, column, is_part ? level(top - row) : layer->pattern.glyph, layer->pattern.style, 1);
  }
}

/// Draws the strip under a chart: `!` where a request was denied, `w` where one waited.
void draw_strip(Grid& grid, int row, int column, int columns, const View& view, const Device& device) {
  for (int at = 0; at < columns; ++at) grid.put(row, column + at, "─", kDim, 1);
  for (const bool denied : {false, true})  // a denial is drawn over a wait
    for (const Event& event : view.events) {
      const bool matches = denied ? event.type == "denied" : event.type == "queued" || event.type == "waited";
      if (!matches || event.gpu.value_or(device.gpu) != device.gpu) continue;
      const auto time = parse_time(event.time);
      const auto place = time ? History::column_of(*time / 1000, columns, view.now) : std::nullopt;
      if (place) grid.put(row, column + *place, denied ? "!" : "w", denied ? kBad : kWarn, 1);
    }
}

}  // namespace

int rows_of_past(const View& view, int columns, int room) { return arranged(view, columns, room).rows(); }

void draw_past(Grid& grid, int row, int room, const View& view) {
  const Arrangement arrangement = arranged(view, grid.columns(), room);
  if (arrangement.down == 0) return;
  grid.put(row, 0, "LAST 10 MINUTES    ! a request was denied   w one waited");
  grid.restyle(row++, {Colour::kDefault, true, false, true});
  const int each = grid.columns() / arrangement.across;
  const int shown = std::min<int>(static_cast<int>(view.model.devices.size()), arrangement.across * arrangement.down);
  for (int i = 0; i < shown; ++i) {
    const Device& device = view.model.devices[static_cast<std::size_t>(i)];
    const int left = i % arrangement.across * each, top = row + i / arrangement.across * (arrangement.height + 1);
    const int bottom = top + arrangement.height - 1;
    const int columns = each - kLabel - (arrangement.across > 1 ? 1 : 0);
    grid.put_right(top, left, short_size(device.total, view.units), kLabel - 1, kDim);
    grid.put_right(top + arrangement.height / 2, left, fmt::format("GPU {}", device.gpu), kLabel - 1, kBold);
    grid.put_right(bottom, left, "0", kLabel - 1, kDim);
    if (device.total && *device.total > Bytes{0}) {
      const auto layers = layers_of(view, device, columns, static_cast<double>(device.total->count()));
      for (std::size_t at = 0; at < layers.size(); ++at)
        draw_column(grid, bottom, left + kLabel + static_cast<int>(at), arrangement.height, layers[at]);
    }
    draw_strip(grid, bottom + 1, left + kLabel, columns, view, device);
  }
}

}  // namespace ration::top
