#include "top/grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cwchar>
#include <utility>

#include "base/utf8.hpp"

namespace ration::top {
namespace {

constexpr char32_t kUnreadable = U'\uFFFD';

/// The letters with their replacements on a terminal that shows ASCII alone.
constexpr std::array<std::pair<char32_t, char>, 32> kInAscii{
    {{U'█', '#'}, {U'▓', '='}, {U'▒', '%'}, {U'▚', 'x'}, {U'▞', 'o'}, {U'▤', '+'},       {U'▥', '&'}, {U'◆', '@'},
     {U'░', '?'}, {U'·', '.'}, {U'┊', '|'}, {U'╌', '-'}, {U'≡', 'd'}, {U'▁', '_'},       {U'▂', '.'}, {U'▃', ':'},
     {U'▄', '-'}, {U'▅', '='}, {U'▆', '+'}, {U'▇', '*'}, {U'─', '-'}, {U'│', '|'},       {U'…', '~'}, {U'→', '>'},
     {U'—', '-'}, {U'–', '-'}, {U'×', 'x'}, {U'°', ' '}, {U'›', '>'}, {U'\u2019', '\''}, {U'↑', '^'}, {U'↓', 'v'}}};

struct Shown {
  char32_t glyph;
  int width;  ///< number of columns; 0 for an invisible letter
};

// Returns how a letter is shown. A letter without a width, such as a mark of the direction of writing, is dropped,
// because each cell has one letter.
Shown shown(char32_t letter, bool utf8) {
  if (letter == kNoCharacter) letter = kUnreadable;
  if (letter >= 0x20 && letter < 0x7f) return {letter, 1};
  if (letter == U'\t' || letter == U'\n') return {U' ', 1};
  if (letter < 0x20 || (letter >= 0x7f && letter < 0xa0)) return {utf8 ? kUnreadable : U'?', 1};
  const int width = ::wcwidth(static_cast<wchar_t>(letter));
  if (utf8 && letter != kUnreadable) return width < 0 ? Shown{kUnreadable, 1} : Shown{letter, width};
  if (utf8) return {kUnreadable, 1};
  for (const auto& [glyph, plain] : kInAscii)
    if (glyph == letter) return {static_cast<char32_t>(plain), 1};
  return {U'?', 1};
}

std::string sgr(const Style& style) {
  std::string codes = "0";
  if (style.bold) codes += ";1";
  if (style.dim) codes += ";2";
  if (style.reverse) codes += ";7";
  if (style.colour != Colour::kDefault) codes += fmt::format(";{}", 30 + static_cast<int>(style.colour));
  return "\033[" + codes + "m";
}

}  // namespace

Grid::Grid(int columns, int rows, bool utf8)
    : columns_(std::max(columns, 0)),
      rows_(std::max(rows, 0)),
      utf8_(utf8),
      cells_(static_cast<std::size_t>(columns_) * static_cast<std::size_t>(rows_)) {}

const Cell& Grid::at(int row, int column) const {
  return cells_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) + static_cast<std::size_t>(column)];
}

int Grid::put(int row, int column, std::string_view text, Style style, int width) {
  if (row < 0 || row >= rows_ || column < 0 || column >= columns_) return 0;
  const int room = width < 0 ? columns_ - column : std::min(width, columns_ - column);
  auto* const line = cells_.data() + static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_);
  // Overwriting the left half of a wide letter would leave its right half alone.
  const auto clear = [&](int place) {
    if (line[place].glyph == 0 && place > 0) line[place - 1].glyph = U' ';
    if (place + 1 < columns_ && line[place + 1].glyph == 0) line[place + 1].glyph = U' ';
  };
  int taken = 0, last = 0;
  while (!text.empty()) {
    const Shown letter = shown(take_character(text), utf8_);
    if (letter.width == 0) continue;
    if (taken + letter.width > room) {
      if (room <= 0) return 0;
      // `…` replaces the last letter; if that was wide, a blank follows.
      const int place = column + (taken == room ? last : taken);
      clear(place);
      line[place] = {utf8_ ? U'…' : U'~', style};
      for (int rest = place + 1; rest < column + room; ++rest) line[rest] = {U' ', style};
      return room;
    }
    last = taken;
    for (int i = 0; i < letter.width; ++i) clear(column + taken + i);
    line[column + taken] = {letter.glyph, style};
    if (letter.width == 2) line[column + taken + 1] = {0, style};
    taken += letter.width;
  }
  return taken;
}

void Grid::put_right(int row, int column, std::string_view text, int width, Style style) {
  put(row, column + std::max(0, width - width_of(text, utf8_)), text, style, std::min(width, width_of(text, utf8_)));
}

void Grid::restyle(int row, Style style) {
  for (int column = 0; row >= 0 && row < rows_ && column < columns_; ++column)
    cells_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) + static_cast<std::size_t>(column)]
        .style = style;
}

void Grid::restyle_all(Style style) {
  for (Cell& cell : cells_) cell.style = style;
}

std::string Grid::text(bool colour) const {
  std::string all;
  for (int row = 0; row < rows_; ++row) {
    std::string line;
    std::size_t end = 0;  // index after the last letter
    Style now;
    for (int column = 0; column < columns_; ++column) {
      const Cell& cell = at(row, column);
      if (cell.glyph == 0) continue;
      const bool seen = cell.glyph != U' ' || (colour && cell.style.reverse);
      if (colour && seen && !(cell.style == now)) line += sgr(now = cell.style);
      line += to_utf8(cell.glyph);
      if (seen) end = line.size();
    }
    line.resize(end);
    if (!(now == Style{})) line += "\033[0m";
    all += line + "\n";
  }
  return all;
}

int width_of(std::string_view text, bool utf8) {
  int width = 0;
  while (!text.empty()) width += shown(take_character(text), utf8).width;
  return width;
}

std::vector<std::string> wrapped(std::string_view text, int width) {
  width = std::max(width, 2);
  std::vector<std::string> lines;
  std::string line;
  int taken = 0, blank_at = 0, indent = 0;
  std::size_t blank = std::string::npos;  // last place where a line can be broken
  const auto break_at = [&](std::size_t end, std::size_t rest, int rest_width) {
    std::string next = std::string(static_cast<std::size_t>(indent), ' ') + line.substr(rest);
    lines.push_back(line.substr(0, end));
    line = std::move(next), taken = indent + rest_width, blank = std::string::npos;
  };
  while (!text.empty()) {
    const std::string_view before = text;
    const char32_t letter = take_character(text);
    if (letter == U'\n') {
      indent = 0;
      break_at(line.size(), line.size(), 0);
      continue;
    }
    const int wide = shown(letter, true).width;
    if (letter == U' ' && taken == width) {
      break_at(line.size(), line.size(), 0);
      continue;
    }
    while (taken + wide > width) {
      const bool at_blank = blank != std::string::npos && blank > 0;
      break_at(at_blank ? blank : line.size(), at_blank ? blank + 1 : line.size(), at_blank ? taken - blank_at - 1 : 0);
    }
    if (lines.empty() && line.ends_with("  ") && letter != U' ') {
      indent = std::min({taken, width / 2, width - 2});
      if (indent == taken) blank = std::string::npos;
    }
    if (letter == U' ' && taken > indent) blank = line.size(), blank_at = taken;
    line += before.substr(0, before.size() - text.size());
    taken += wide;
  }
  lines.push_back(line);
  return lines;
}

}  // namespace ration::top
