// Everything the live view shows and remembers between two frames. Filled by the feed, changed by keys (controls.hpp),
// drawn by frame.hpp. No terminal and no daemon here.
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

using namespace rows;  // what the live view shows

/// What somebody has to be asked: the daemon, or the books.
struct Request {
  enum class Kind { kSet, kTrim, kWhy, kExplain } kind = Kind::kWhy;
  std::string workload;
  std::optional<int> gpu;
  std::string value;                     ///< kSet: the limit as typed; kWhy: the denial
  std::optional<std::uint64_t> changes;  ///< kSet: the row's limit_changes when it was looked at
  bool agreed = false;                   ///< kSet: also below what is held
};

/// What is typed on the last line.
struct Prompt {
  enum class Kind { kFilter, kSort, kLimit, kAgree } kind = Kind::kFilter;
  std::string question, text;
  Request request;  ///< of kLimit and kAgree
};

/// A page over the table: help, events, the answer to a question.
struct Page {
  enum class Kind { kHelp, kEvents, kText } kind = Kind::kText;
  std::string title;
  std::vector<std::string> lines;  ///< of kText
  int first = 0;                   ///< the line at the top
};

enum class Detail { kAuto, kCompact, kFull };

struct View {
  static constexpr std::size_t kEventsKept = 200;

  Model model;
  History history;
  std::deque<Event> events;           ///< newest last
  std::vector<std::string> patterns;  ///< tenants in the order of their fill patterns; only ever grows
  std::int64_t now = 0;               ///< seconds of the wall clock

  std::string host, source;  ///< `daemon`, or what is seen without one
  bool has_daemon = true;
  std::optional<std::int64_t> seen_at;  ///< when the snapshot came; absent: none yet
  std::string lost;                     ///< why nothing comes any more; empty: it does

  bool read_only = true;
  bool once = false;  ///< one frame as text: no keys, nothing selected
  Units units = Units::kIec;
  Detail detail = Detail::kAuto;
  Filter filter;
  std::string filter_text;
  Order order;
  std::string selected;  ///< key of a row; empty: the first
  std::optional<Page> page;
  std::optional<Prompt> prompt;
  std::string message;
  bool message_is_bad = false;

  // What the last frame had room for.
  std::size_t first = 0, fitting = 1;
  int page_lines = 1, page_fitting = 1;
};

/// Rows that the filter lets through, in order.
[[nodiscard]] std::vector<const Row*> shown_rows(const View& view);
/// The selected one of them, else the first; null: there is none.
[[nodiscard]] const Row* selected_row(const View& view, const std::vector<const Row*>& shown);

/// A new snapshot. `now`: seconds of the wall clock.
void take_snapshot(View& view, Model model, std::int64_t now);
void take_event(View& view, Event event);

/// `12.1G`; `-` where there is no limit, `n/a` where it is not known.
[[nodiscard]] std::string short_size(const std::optional<Bytes>& bytes, Units units);

}  // namespace ration::top
