// A frame of the live view as cells. Used by frame.cpp, which draws, and by screen.cpp and `--once`, which show it.
// Promises that put() lets no control character, no half of a UTF-8 sequence and nothing invisible through, so that no
// name of a tenant can steer a terminal; that nothing is written outside the grid, however small it is; and that
// without UTF-8 every cell is ASCII.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ration::top {

enum class Colour : std::uint8_t { kDefault, kRed, kGreen, kYellow, kBlue, kMagenta, kCyan, kWhite };

struct Style {
  Colour colour = Colour::kDefault;
  bool bold = false, dim = false, reverse = false;

  bool operator==(const Style&) const = default;
};

inline constexpr Style kPlain{};
inline constexpr Style kBold{Colour::kDefault, true, false, false};
inline constexpr Style kDim{Colour::kDefault, false, true, false};
inline constexpr Style kBad{Colour::kRed, true, false, false};
inline constexpr Style kWarn{Colour::kYellow, false, false, false};

struct Cell {
  char32_t glyph = U' ';  ///< letter; 0 for the right half of the wide letter before it
  Style style;
};

class Grid {
 public:
  Grid(int columns, int rows, bool utf8);

  [[nodiscard]] int columns() const { return columns_; }
  [[nodiscard]] int rows() const { return rows_; }
  [[nodiscard]] const Cell& at(int row, int column) const;

  /// Writes `text` at a place, in at most `width` columns (negative: up to the edge). If the text does not fit, cuts it
  /// and appends `…`. Returns the number of columns taken. Shows nothing at places outside the grid.
  int put(int row, int column, std::string_view text, Style style = {}, int width = -1);
  /// Writes `text` at the right end of `width` columns.
  void put_right(int row, int column, std::string_view text, int width, Style style = {});
  /// Applies a style to a whole row, such as the selected row, or to every cell, such as those of an outdated frame.
  void restyle(int row, Style style);
  void restyle_all(Style style);

  /// Returns the grid as lines without trailing blanks, with SGR sequences if `colour`.
  [[nodiscard]] std::string text(bool colour) const;

 private:
  int columns_, rows_;
  bool utf8_;
  std::vector<Cell> cells_;
};

/// Returns the number of columns that `text` takes in a grid.
[[nodiscard]] int width_of(std::string_view text, bool utf8 = true);

/// Returns `text` in lines of at most `width` columns, broken at blanks where there are some. The lines after the first
/// are indented to its last column, as two blanks separate columns.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, int width);

}  // namespace ration::top
