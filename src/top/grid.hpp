// A frame of the live view as cells. Used by whatever draws (frame.cpp) and by whatever shows a frame (screen.cpp, and
// `--once` as text). Promises: every text passes put(), and put() lets no control character, no half of a UTF-8
// sequence and nothing invisible through, so that no name of a tenant can steer a terminal; nothing is written outside
// the grid, however small that is; without UTF-8 every cell is ASCII.
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
  char32_t glyph = U' ';  ///< 0: the right half of the wide letter before it
  Style style;
};

class Grid {
 public:
  Grid(int columns, int rows, bool utf8);

  [[nodiscard]] int columns() const { return columns_; }
  [[nodiscard]] int rows() const { return rows_; }
  [[nodiscard]] const Cell& at(int row, int column) const;

  /// Writes `text` from there on, at most `width` columns of it (negative: to the edge); what does not fit ends in `…`.
  /// Answers the columns taken. Places outside the grid are allowed and show nothing.
  int put(int row, int column, std::string_view text, Style style = {}, int width = -1);
  /// The same, ending at the right of `width` columns.
  void put_right(int row, int column, std::string_view text, int width, Style style = {});
  /// Gives a whole row a style (selection), or every cell (what is out of date).
  void restyle(int row, Style style);
  void restyle_all(Style style);

  /// Lines without blanks at their ends; with `colour` as SGR sequences.
  [[nodiscard]] std::string text(bool colour) const;

 private:
  int columns_, rows_;
  bool utf8_;
  std::vector<Cell> cells_;
};

/// Columns that `text` takes in a grid.
[[nodiscard]] int width_of(std::string_view text, bool utf8 = true);

/// `text` cut into lines of at most `width` columns, at blanks where there are some.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, int width);

}  // namespace ration::top
