#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "top/frame_parts.hpp"

namespace ration::top {
namespace {

constexpr int kRemark = 9;  // `suspended`
constexpr int kName = 12,
              kReadableName = 24;  // columns of the shortest name, and of one that other columns make room for
constexpr std::uint64_t kIdleWorthSaying = 300;  // seconds

/// The widths of the columns; 0 for a column without room.
struct Columns {
  int name = kName, pid = 7, user = 6, gpu = 3, where = 0, size = 5, limit = 5, guarantee = 5, peak = 5, pinned = 0,
      denied = 4;
  int history = 7, remark = kRemark;
};

int taken(const Columns& columns) {
  int sum = 0;
  for (const int width :
       {columns.name, columns.pid, columns.user, columns.gpu, columns.where, columns.size, columns.limit,
        columns.guarantee, columns.peak, columns.pinned, columns.denied, columns.history, columns.remark})
    sum += width > 0 ? width + 1 : 0;
  return sum - 1;
}

/// Chooses the columns. A narrow table drops the least important columns, before it cuts names shorter than
/// kReadableName; a wide table widens the columns that need it most.
Columns columns_for(const View& view, const std::vector<const Row*>& rows, int width) {
  Columns columns;
  int longest = kName;
  for (const Row* row : rows) longest = std::max(longest, width_of(row->title()));
  columns.name = std::min(longest, kReadableName);
  const auto pins = [](const Row& row) { return row.pinned.value_or(Bytes{0}) > Bytes{0}; };
  if (std::ranges::any_of(view.model.rows, pins)) columns.pinned = 6;
  if (view.units == Units::kBytes) {
    columns.size = columns.limit = columns.guarantee = columns.peak = 13;
    if (columns.pinned > 0) columns.pinned = 13;
  }
  if (view.model.devices.size() < 2) columns.gpu = 0;
  const auto promised = [](const Row& row) { return row.guarantee.value_or(Bytes{0}) > Bytes{0}; };
  if (std::ranges::none_of(view.model.rows, promised)) columns.guarantee = 0;
  const auto drop = [&](std::initializer_list<int Columns::*> parts) {
    for (int Columns::*part : parts)
      if (taken(columns) > width) columns.*part = 0;
  };
  drop({&Columns::pinned, &Columns::user, &Columns::pid, &Columns::guarantee, &Columns::history, &Columns::peak});
  if (const int over = taken(columns) - width; over > 0) columns.name = std::max(kName, columns.name - over);
  drop({&Columns::gpu, &Columns::remark, &Columns::denied});
  const auto spare = [&] { return std::max(0, width - taken(columns)); };
  const auto grow = [&](int& part, int most) {
    if (part > 0) part += std::min(spare(), std::max(0, most - part));
  };
  grow(columns.name, std::min(longest, 40));
  grow(columns.history, 12);
  grow(columns.user, 8);
  const auto is_somewhere = [](const Row* row) { return !row->where.empty() || !row->slice.empty(); };
  if (spare() >= 13 && std::ranges::any_of(rows, is_somewhere)) columns.where = 12;
  grow(columns.history, 20);
  grow(columns.name, 24);
  grow(columns.where, 30);
  grow(columns.history, 60);
  return columns;
}

Style state_style(const Row& row) {
  if ((!row.governed && !row.unknown) || !row.book_altered.empty() || row.full()) return kBad;
  return kWarn;
}

std::string remark_of(const Row& row) {
  if (!row.governed) return row.unknown ? "unknown" : "no guard";
  if (!row.book_altered.empty()) return "ALTERED";
  if (row.state == "shrinking" || row.state == "waiting" || row.state == "suspended") return row.state;
  if (row.full()) return "FULL";
  if (row.idle_seconds && *row.idle_seconds >= kIdleWorthSaying) return "idle " + short_time(*row.idle_seconds);
  if (!row.held_back_by.empty()) return "held back";
  return "";
}

std::string pids_of(const Row& row) {
  if (row.processes.empty() || !row.processes.front().pid) return "-";
  const std::string first = std::to_string(*row.processes.front().pid);
  return row.process_count <= 1 ? first : fmt::format("{}+{}", first, row.process_count - 1);
}

/// Draws the history of a row. The full height of the line stands for the row's limit, or for the size of the device if
/// the row has no limit. So workloads can be compared.
std::string sparkline(const View& view, const Row& row, int width) {
  const Device* device = view.model.device(row.gpu);
  Bytes whole = device != nullptr && device->total ? *device->total : Bytes{0};
  if (row.limited() && (whole == Bytes{0} || *row.limit < whole)) whole = *row.limit;
  std::string text;
  for (const auto& used : view.history.of_row(row.key(), width, view.now)) {
    if (!used) {
      text += ' ';
      continue;
    }
    const double share =
        whole == Bytes{0} ? 0 : static_cast<double>(used->count()) / static_cast<double>(whole.count());
    text += level(share);
  }
  return text;
}

void draw_head(Grid& grid, int row, const Columns& columns) {
  int at = 0;
  const auto head = [&](const char* title, int width, bool right = false) {
    if (width == 0) return;
    if (right)
      grid.put_right(row, at, title, width);
    else
      grid.put(row, at, title, {}, width);
    at += width + 1;
  };
  head("TENANT/NAME", columns.name);
  head("PID", columns.pid);
  head("USER", columns.user);
  head("GPU", columns.gpu);
  head("WHERE", columns.where);
  head("USED", columns.size, true);
  head("LIMIT", columns.limit, true);
  head("GUAR", columns.guarantee, true);
  head("PEAK", columns.peak, true);
  head("PINNED", columns.pinned, true);
  head("DENY", columns.denied, true);
  head(columns.history >= 14 ? "10-MIN HISTORY" : columns.history >= 7 ? "10 MIN" : "", columns.history);
  head("STATE", columns.remark);
  grid.restyle(row, {Colour::kDefault, true, false, true});
}

void draw_row(Grid& grid, int at_row, const View& view, const Row& row, const Columns& columns, bool selected) {
  int at = 0;
  const auto text = [&](const std::string& cell, int width, bool right = false, Style style = {}) {
    if (width == 0) return;
    if (right)
      grid.put_right(at_row, at, cell, width, style);
    else
      grid.put(at_row, at, cell, style, width);
    at += width + 1;
  };
  const auto size = [&](const std::optional<Bytes>& bytes, int width, Style style = {}) {
    text(row.governed || bytes ? short_size(bytes, view.units) : "-", width, true, style);
  };
  const bool none = !row.governed;
  text(row.title(), columns.name, false, none ? Style{} : pattern_of(view, row.tenant).style);
  text(pids_of(row), columns.pid);
  text(row.user, columns.user);
  text(row.gpu ? std::to_string(*row.gpu) : "n/a", columns.gpu);
  text(row.where.empty() && !row.slice.empty() ? "slice " + row.slice : row.where, columns.where);
  size(none && !row.used ? std::nullopt : row.used, columns.size, kBold);
  size(row.limit, columns.limit);
  text(row.guarantee && *row.guarantee == Bytes{0} ? "-"
       : none                                      ? "-"
                                                   : short_size(row.guarantee, view.units),
       columns.guarantee, true);
  size(row.peak, columns.peak);
  size(row.pinned, columns.pinned);
  text(row.denials ? std::to_string(*row.denials) : "-", columns.denied, true,
       row.denials.value_or(0) > 0 ? kBad : kPlain);
  text(columns.history > 0 ? sparkline(view, row, columns.history) : "", columns.history, false,
       none ? kPlain : pattern_of(view, row.tenant).style);
  text(remark_of(row), columns.remark, false, state_style(row));
  if (selected) grid.restyle(at_row, {Colour::kDefault, false, false, true});
}

}  // namespace

const char* level(double share) {
  static constexpr std::array<const char*, 8> kLevels{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  return kLevels[static_cast<std::size_t>(std::clamp(share * 8, 0.0, 7.0))];
}

std::string short_time(std::uint64_t seconds) {
  if (seconds >= 86'400) return fmt::format("{}d", seconds / 86'400);
  if (seconds >= 3'600) return fmt::format("{}h", seconds / 3'600);
  return seconds >= 60 ? fmt::format("{}m", seconds / 60) : fmt::format("{}s", seconds);
}

void draw_table(Grid& grid, int row, int end, View& view) {
  const auto rows = shown_rows(view);
  const Columns columns = columns_for(view, rows, grid.columns());
  draw_head(grid, row++, columns);
  view.fitting = static_cast<std::size_t>(std::max(1, end - row));
  const Row* selected = selected_row(view, rows);
  const auto place = static_cast<std::size_t>(std::find(rows.begin(), rows.end(), selected) - rows.begin());
  // The list scrolls no further than necessary to show the selected row.
  if (view.first + view.fitting > rows.size()) view.first = rows.size() - std::min(rows.size(), view.fitting);
  if (selected != nullptr && place < view.first) view.first = place;
  if (selected != nullptr && place >= view.first + view.fitting) view.first = place + 1 - view.fitting;
  for (std::size_t i = view.first; i < rows.size() && row < end; ++i, ++row)
    draw_row(grid, row, view, *rows[i], columns, !view.once && rows[i] == selected);
  if (!rows.empty()) return;
  grid.put(row, 0,
           view.model.rows.empty() ? "nothing runs under a limit: 'ration run' starts a program under one"
                                   : "nothing matches the filter.",
           kDim);
}

}  // namespace ration::top
