// The parts of a frame, each in a file of its own. Used by frame.cpp only.
#pragma once

#include "top/grid.hpp"
#include "top/view.hpp"

namespace ration::top {

/// The glyph and colour of a tenant on every device. Tenants beyond the number of patterns share one.
struct Pattern {
  const char* glyph = nullptr;
  Style style;
};
[[nodiscard]] Pattern pattern_of(const View& view, const std::string& tenant);

/// The part of a device's memory that belongs to one holder.
struct Part {
  std::string label;
  Pattern pattern;
  Bytes used;
  std::optional<Bytes> limit;  ///< limit of the tenant; absent if the tenant has none of its own
  bool full = false;
};
/// Returns the parts of a device: the tenants, largest first, then ungoverned memory, then memory that nothing
/// explains.
[[nodiscard]] std::vector<Part> parts_of(const View& view, const Device& device);

/// Draws a device in three rows, or in one if `compact`. Returns the number of rows drawn.
int draw_device(Grid& grid, int row, const View& view, const Device& device, bool compact);

/// Draws the head and the rows of the table, from the screen's row `row` up to the row before `end`.
void draw_table(Grid& grid, int row, int end, View& view);

/// Returns how many of `room` rows the charts of the last ten minutes take; 0 where they are not drawn.
[[nodiscard]] int rows_of_past(const View& view, int columns, int room);
/// Draws these charts from the screen's row `row`.
void draw_past(Grid& grid, int row, int room, const View& view);

/// Draws the page over the screen's rows, from `row` up to the row before `end`.
void draw_page(Grid& grid, int row, int end, View& view);

/// Returns the line of an event, with its local time: `12:03:58 d-17-3 DENIED …`.
[[nodiscard]] std::string event_line(const Event& event);
[[nodiscard]] Style style_of(const Event& event);

/// Returns the glyph of a cell that is filled up to `share`, from 0 to 1.
[[nodiscard]] const char* level(double share);

/// Returns a duration in its largest unit: `47m`, `3h`, `2d`.
[[nodiscard]] std::string short_time(std::uint64_t seconds);

}  // namespace ration::top
