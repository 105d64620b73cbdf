#include "top/frame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/time.hpp"
#include "base/utf8.hpp"
#include "top/frame_parts.hpp"

namespace ration::top {
namespace {

constexpr std::int64_t kStale = 5;  // seconds without a snapshot

std::string number_of(std::size_t number, const char* one) {
  return fmt::format("{} {}{}", number, one, number == 1 ? "" : one[std::string(one).size() - 1] == 's' ? "es" : "s");
}

bool out_of_date(const View& view) {
  return !view.once && (!view.lost.empty() || (view.seen_at && view.now - *view.seen_at >= kStale));
}

void draw_header(Grid& grid, const View& view) {
  std::uint64_t processes = 0;
  std::set<std::string> tenants;
  for (const Row& row : view.model.rows) {
    processes += row.process_count;
    if (row.governed) tenants.insert(row.tenant);
  }
  std::string right = fmt::format("{}  {}{}", local_time(view.now * 1000).substr(11), view.source,
                                  view.read_only && !view.once ? "  r/o" : "");
  if (out_of_date(view) && view.seen_at) right = fmt::format("{} s old  ", view.now - *view.seen_at) + right;
  int at = grid.put(0, 0, "ration top", kBold) + 2;
  // A narrow frame drops host and counts, and keeps the text at the right, which warns of old numbers.
  const int end = grid.columns() - width_of(right) - 1;
  for (const std::string& part :
       {view.host, fmt::format("{} · {} · {}", number_of(view.model.devices.size(), "GPU"),
                               number_of(tenants.size(), "tenant"), number_of(processes, "process"))}) {
    if (at + width_of(part) > end) break;
    at += grid.put(0, at, part) + 2;
  }
  grid.put_right(0, std::max(at - 1, 0), right, std::max(0, grid.columns() - std::max(at - 1, 0)),
                 out_of_date(view) ? kBad : kPlain);
}

/// Returns the line above the table; empty where there is none.
std::string filter_line(const View& view) {
  if (view.filter.empty()) return "";
  return fmt::format("{} of {} shown: {}", shown_rows(view).size(), view.model.rows.size(), view.filter_text) +
         (view.once ? "" : "   (Esc shows all)");
}

std::string waiting_line(const View& view, const Waiting& waiting) {
  const std::string since =
      waiting.waited_seconds ? " " + format_duration(*waiting.waited_seconds * 1'000'000'000) : "";
  return fmt::format("waiting{}: {} {}{} ({}) {} on GPU {}  place {} of {}  {}", since, waiting.lease, waiting.tenant,
                     waiting.name.empty() ? "" : "/" + waiting.name, waiting.user,
                     short_size(waiting.bytes, view.units), waiting.gpu, waiting.position.value_or(0),
                     waiting.of.value_or(0), waiting.reason);
}

/// Returns the lines above the keys: the queue, then the latest events, newest first.
std::vector<std::pair<std::string, Style>> ribbon(const View& view, int most) {
  std::vector<std::pair<std::string, Style>> lines;
  for (const Waiting& waiting : view.model.queue)
    if (static_cast<int>(lines.size()) < std::max(0, most - 1)) lines.emplace_back(waiting_line(view, waiting), kWarn);
  if (!view.lost.empty() && most > 0) {
    lines.emplace_back("no new numbers: " + view.lost + ". Trying again each second.", kWarn);
    return lines;
  }
  const auto room = static_cast<std::size_t>(std::max(0, most));
  if (!view.has_daemon) {
    // Only the daemon has events; a book has the newest denial of its workload.
    const std::size_t denials = std::max<std::size_t>(1, room - std::min(room, view.notes.size()));
    for (const Row& row : view.model.rows)
      if (row.denials.value_or(0) > 0 && lines.size() < std::min(room, denials))
        lines.emplace_back(fmt::format("{} was denied {} times, last {}", row.title(), *row.denials, row.last_denial),
                           kBad);
    for (const std::string& note : view.notes)
      if (lines.size() < room) lines.emplace_back(note, kDim);
    return lines;
  }
  for (auto event = view.events.rbegin(); event != view.events.rend() && lines.size() < room; ++event)
    lines.emplace_back(event_line(*event), style_of(*event));
  return lines;
}

void draw_keys(Grid& grid, int row, const View& view) {
  if (view.prompt) {
    const int at = grid.put(row, 0, view.prompt->question, kBold);
    // If the text is too long, its end is shown, where the cursor is.
    std::string_view text = view.prompt->text;
    while (width_of(text) > std::max(1, grid.columns() - at - 1)) take_character(text);
    const int behind = at + grid.put(row, at, text);
    grid.put(row, behind, " ", {Colour::kDefault, false, false, true});
    return;
  }
  if (!view.message.empty()) {
    grid.put(row, 0, view.message, view.message_is_bad ? kBad : kBold);
    return;
  }
  std::vector<const char*> keys{"? help", "q quit"};
  if (view.page)
    keys = {"q back", "↑↓ PgUp PgDn scroll"};
  else {
    keys.push_back("/ filter");
    if (!view.read_only) keys.insert(keys.end(), {"s set limit", "t trim"});
    keys.insert(keys.end(), {"w why", "o sort", "e events", "Enter detail"});
  }
  int at = 0;
  for (const char* key : keys) {
    const std::string text = fmt::format("[{}]", key);
    if (at + width_of(text) > grid.columns()) break;
    at += grid.put(row, at, text, kDim);
  }
}

bool compact_fits_better(const View& view, int columns, int rows) {
  if (view.detail != Detail::kAuto) return view.detail == Detail::kCompact;
  const int devices = static_cast<int>(view.model.devices.size()) * 3;
  return columns < 64 || (!view.once && (devices > rows / 2 || devices + 8 > rows));
}

int draw_devices(Grid& grid, int row, int end, const View& view) {
  const bool compact = compact_fits_better(view, grid.columns(), grid.rows());
  const int each = compact ? 1 : 3;
  for (std::size_t i = 0; i < view.model.devices.size(); ++i) {
    const bool last = i + 1 == view.model.devices.size();
    if (row + each > end || (!last && row + each + 1 > end)) {
      grid.put(row, 0, fmt::format("… {} more", number_of(view.model.devices.size() - i, "GPU")), kDim);
      return row + 1;
    }
    row += draw_device(grid, row, view, view.model.devices[i], compact);
  }
  if (view.model.devices.empty())
    grid.put(row++, 0, view.model.problem.empty() ? "no GPU is known yet" : "no GPU: " + view.model.problem, kWarn);
  return row;
}

}  // namespace

std::string event_line(const Event& event) {
  const auto instant = parse_time(event.time);
  const std::string time = instant ? local_time(*instant).substr(11) : event.time;
  std::string type = event.type;
  if (type == "denied") type = "DENIED";
  return fmt::format("{} {} {}", time, event.denial.empty() ? type : event.denial + " " + type, event.text);
}

Style style_of(const Event& event) {
  if (event.type == "denied" || event.type == "violation" || event.type == "guard_lost") return kBad;
  return event.type == "alert" || event.type == "gap" ? kWarn : kPlain;
}

Grid draw(View& view, int columns, int rows, bool utf8) {
  Grid grid(columns, rows, utf8);
  const int keys = view.once ? rows : rows - 1;
  if (view.page) {
    draw_page(grid, 1, keys, view);
  } else {
    // The table keeps at least two rows.
    auto last = ribbon(view, view.once || rows >= 20 ? 3 : rows >= 12 ? 2 : rows >= 8 ? 1 : 0);
    int bottom = keys - static_cast<int>(last.size());
    int row = draw_devices(grid, 1, view.once ? bottom : std::max(2, bottom - 4), view);
    if (const std::string line = filter_line(view); !line.empty()) grid.put(row++, 0, line, kWarn);
    // Rows that the table leaves over show the last ten minutes, then more events.
    const int needed = 1 + static_cast<int>(std::max<std::size_t>(shown_rows(view).size(), 1));
    const int room = view.once ? 0 : std::max(0, bottom - row - needed);
    const int past = rows_of_past(view, columns, room);
    if (room > past) last = ribbon(view, static_cast<int>(last.size()) + room - past);
    bottom = keys - static_cast<int>(last.size());
    draw_table(grid, row, bottom - past, view);
    draw_past(grid, bottom - past, past, view);
    for (std::size_t i = 0; i < last.size(); ++i)
      grid.put(bottom + static_cast<int>(i), 0, last[i].first, last[i].second);
  }
  if (out_of_date(view)) grid.restyle_all(kDim);
  draw_header(grid, view);
  if (!view.once && rows > 1) draw_keys(grid, keys, view);
  return grid;
}

int needed_rows(const View& view) {
  const std::size_t devices = view.model.devices.size() * (view.detail == Detail::kCompact ? 1 : 3);
  return static_cast<int>(1 + std::max<std::size_t>(devices, 1) + (view.filter.empty() ? 0 : 1) + 1 +
                          std::max<std::size_t>(shown_rows(view).size(), 1) + ribbon(view, 3).size());
}

}  // namespace ration::top
