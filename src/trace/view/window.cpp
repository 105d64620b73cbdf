#include "trace/view/window.hpp"

#include <algorithm>

namespace ration::trace {
namespace {

std::int64_t divided_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// Returns the most bytes held in the spans of [from, to). Looks at one span at least.
std::int64_t most_of(const Timeline& timeline, std::int64_t from, std::int64_t to) {
  const auto size = static_cast<std::int64_t>(timeline.most.size());
  const std::int64_t first = from / timeline.span;
  const std::int64_t behind = std::min(size, std::max(first + 1, divided_up(to, timeline.span)));
  if (first >= behind) return 0;
  return *std::max_element(timeline.most.begin() + first, timeline.most.begin() + behind);
}

/// Returns the columns from the overview. They are at least as wide as the spans of the overview.
Window from_overview(const Overview& overview, const Range& range) {
  std::int64_t span = 1;
  for (const Total& total : overview.totals) span = std::max(span, total.timeline.span);
  Window window;
  window.from = range.from / span * span;
  window.to = range.to;
  const std::int64_t wanted = divided_up(range.to - window.from, static_cast<std::int64_t>(range.columns));
  window.step = std::max(span, divided_up(wanted, span) * span);
  for (const Total& total : overview.totals) {
    Line line{total.place, {}};
    for (std::int64_t at = window.from; at < range.to; at += window.step)
      line.most.push_back(most_of(total.timeline, at, std::min(range.to, at + window.step)));
    window.lines.push_back(std::move(line));
  }
  return window;
}

/// The columns of each place, filled from events in order of time.
class Columns {
 public:
  Columns(Window& window, const Range& range, const Live& live) : window_(window), range_(range), live_(live) {}

  /// Notes what is held before the first event of the range.
  void begin() {
    for (Line& line : window_.lines) line.most.assign(1, live_.held(line.place));
  }
  /// Notes an event of the range. `before` is the number of bytes that its place held before the event.
  void add(const Event& event, std::int64_t before) {
    const Place place = place_of(event);
    const auto line =
        std::find_if(window_.lines.begin(), window_.lines.end(), [&](const Line& each) { return each.place == place; });
    if (line == window_.lines.end()) return;
    extend(*line, column_of(event.time) + 1, before);
    line->most.back() = std::max(line->most.back(), live_.held(place));
  }
  void end() {
    for (Line& line : window_.lines) extend(line, column_of(range_.to - 1) + 1, live_.held(line.place));
  }

 private:
  [[nodiscard]] std::size_t column_of(std::int64_t time) const {
    const auto column = static_cast<std::size_t>((time - window_.from) / window_.step);
    return std::min(column, range_.columns - 1);
  }
  static void extend(Line& line, std::size_t size, std::int64_t held) {
    if (line.most.size() < size) line.most.resize(size, held);
  }

  Window& window_;
  const Range& range_;
  const Live& live_;
};

/// Returns the columns from the events, or nullopt if there are too many events.
std::optional<Window> from_events(const Recording& recording, const Overview& overview, const Range& range) {
  Window window;
  window.from = range.from;
  window.to = range.to;
  window.step = std::max<std::int64_t>(1, divided_up(range.to - range.from, static_cast<std::int64_t>(range.columns)));
  window.events = 0;
  for (const Total& total : overview.totals) window.lines.push_back({total.place, {}});
  Live live(recording.header());
  Columns columns(window, range, live);
  std::uint64_t read = 0;
  bool has_begun = false;
  recording.read_near(
      range.from, [&](const Event& event) { live.restore(event); },
      [&](const Event& event) {
        if (++read > kMostRead || event.time > range.to) return false;
        const bool is_in_range = event.time >= range.from;
        if (is_in_range && !has_begun) {
          has_begun = true;
          columns.begin();
        }
        const std::int64_t before = live.held(place_of(event));
        live.follow(event);
        if (!is_in_range) return true;
        columns.add(event, before);
        if (++*window.events <= range.most_listed)
          window.listed.push_back({event, live.held(place_of(event))});
        else
          window.listed.clear();
        return true;
      });
  if (read > kMostRead) return std::nullopt;
  if (!has_begun) columns.begin();
  columns.end();
  return window;
}

}  // namespace

Window window_of(const Recording& recording, const Overview& overview, Range range) {
  range.columns = std::max<std::size_t>(1, range.columns);
  range.from = std::clamp<std::int64_t>(range.from, 0, overview.length);
  range.to = std::clamp<std::int64_t>(range.to, range.from, overview.length);
  range.to = std::max(range.to, range.from + 1);
  const Window coarse = from_overview(overview, range);
  const std::int64_t wanted = divided_up(range.to - range.from, static_cast<std::int64_t>(range.columns));
  if (coarse.step <= 2 * wanted && overview.events > range.most_listed) return coarse;
  auto exact = from_events(recording, overview, range);
  return exact ? std::move(*exact) : coarse;
}

}  // namespace ration::trace
