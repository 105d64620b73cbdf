// One frame of the live view, from what it knows and the size of the terminal. Used by the screen and by `--once`.
// Promises: any size and any content may be given; nothing is asked of a terminal or of a clock.
#pragma once

#include "top/grid.hpp"
#include "top/view.hpp"

namespace ration::top {

/// Remembers in `view` what fitted, for the keys that page.
[[nodiscard]] Grid draw(View& view, int columns, int rows, bool utf8);
/// Rows that a frame needs to show everything there is.
[[nodiscard]] int needed_rows(const View& view);

}  // namespace ration::top
