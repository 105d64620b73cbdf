// The state of the live view between two frames. Filled by the feed, changed by keys (controls.hpp), drawn by
// frame.hpp; independent of terminal and daemon.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "rows/filter.hpp"
#include "rows/order.hpp"
#include "rows/rows.hpp"
#include "top/history.hpp"

namespace ration::top {

using namespace rows;  // the live view shows rows

/// A request to the daemon or, without one, to the books.
struct Request {
  enum class Kind { kSet, kTrim, kWhy, kExplain } kind = Kind::kWhy;
  std::string workload;
  std::optional<int> gpu;
  std::string value;                     ///< limit as typed for kSet, denial for kWhy
  std::optional<std::uint64_t> changes;  ///< for kSet, limit_changes of the row when the row was drawn
  bool agreed = false;                   ///< true if kSet may set a limit below what is held
};

/// A question on the last line, with the text typed so far.
struct Prompt {
  enum class Kind { kFilter, kSort, kLimit, kAgree } kind = Kind::kFilter;
  std::string question, text;
  Request request;  ///< the request of kLimit and kAgree
};

/// A page over the table: help, events, or the answer to a request.
struct Page {
  enum class Kind { kHelp, kEvents, kText } kind = Kind::kText;
  std::string title;
  std::vector<std::string> lines;  ///< lines of kText
  int first = 0;                   ///< number of the line at the top
};

enum class Detail { kAuto, kCompact, kFull };

struct View {
  static constexpr std::size_t kEventsKept = 200;

  Model model;
  History history;
  std::deque<Event> events;           ///< events, newest last
  std::vector<std::string> patterns;  ///< tenants in the order of their fill patterns; tenants are only added
  std::int64_t now = 0;               ///< seconds of the wall clock

  std::string host, source;  ///< host, and the source of the numbers, such as `daemon`
  bool has_daemon = true;
  std::vector<std::string> notes;       ///< what is not shown without a daemon, and how to see it; ignored with one
  std::optional<std::int64_t> seen_at;  ///< time of the snapshot; absent where none has come
  std::string lost;                     ///< reason why no snapshots come; empty while they do

  bool read_only = true;
  bool once = false;  ///< true for one frame as text, without keys and selection
  Units units = Units::kIec;
  Detail detail = Detail::kAuto;
  Filter filter;
  std::string filter_text;
  Order order;
  std::string selected;  ///< key of the selected row; empty for the first
  std::optional<Page> page;
  std::optional<Prompt> prompt;
  std::string message;
  bool message_is_bad = false;

  // The numbers of rows and lines of the last frame: the first one shown, and how many fitted.
  std::size_t first = 0, fitting = 1;
  int page_lines = 1, page_fitting = 1;
};

/// Returns the rows that match the filter, in order.
[[nodiscard]] std::vector<const Row*> shown_rows(const View& view);
/// Returns the selected row or, if that is not shown, the first row; null if no row is shown.
[[nodiscard]] const Row* selected_row(const View& view, const std::vector<const Row*>& shown);

/// Takes a new snapshot. `now` is in seconds of the wall clock.
void take_snapshot(View& view, Model model, std::int64_t now);
void take_event(View& view, Event event);

/// Returns a size such as `12.1G`, `-` for no limit, `n/a` for an unknown size.
[[nodiscard]] std::string short_size(const std::optional<Bytes>& bytes, Units units);

}  // namespace ration::top
