// Draws one frame of the live view from its state and the size of the terminal. Used by the screen and by `--once`.
// Promises to take any size and any content, and to read neither a terminal nor a clock.
#pragma once

#include "top/grid.hpp"
#include "top/view.hpp"

namespace ration::top {

/// Draws a frame. Stores in `view` how much fitted, for the keys that page.
[[nodiscard]] Grid draw(View& view, int columns, int rows, bool utf8);
/// Returns the number of rows that a frame needs to show everything.
[[nodiscard]] int needed_rows(const View& view);

}  // namespace ration::top
