// The parts of a frame, each in a file of its own. Used by frame.cpp only.
#pragma once

#include "top/grid.hpp"
#include "top/view.hpp"

namespace ration::top {

/// The glyph and colour that a tenant is drawn with on every device; those beyond the patterns share them.
struct Pattern {
  const char* glyph = nullptr;
  Style style;
};
[[nodiscard]] Pattern pattern_of(const View& view, const std::string& tenant);

/// What of a device is whose.
struct Part {
  std::string label;
  Pattern pattern;
  Bytes used;
  std::optional<Bytes> limit;
  bool full = false;
};
/// Tenants from the largest, then what no book has, then what nobody explains.
[[nodiscard]] std::vector<Part> parts_of(const View& view, const Device& device);

/// Three rows of a device, or one (`compact`). Answers how many were drawn.
int draw_device(Grid& grid, int row, const View& view, const Device& device, bool compact);

/// Head and rows of the table from `row` to before `end`.
void draw_table(Grid& grid, int row, int end, View& view);

/// The page over everything between the first row and the last.
void draw_page(Grid& grid, int row, int end, View& view);

/// `12:03:58 d-17-3 DENIED …` of an event.
[[nodiscard]] std::string event_line(const Event& event);
[[nodiscard]] Style style_of(const Event& event);

/// How long something lasts, in its largest part: `47m`, `3h`, `2d`.
[[nodiscard]] std::string short_time(std::uint64_t seconds);

}  // namespace ration::top
