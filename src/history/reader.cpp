#include "history/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/command.hpp"
#include "history/schema.hpp"

namespace ration::history {
namespace {

constexpr const char* kEventColumns =
    "SELECT id, time, type, workload, tenant, user, gpu, pid, bytes, denial, actor, message, old, new, fix, why, "
    "count, first, message_json "
    "FROM events ";

Event read_event(Statement& row) {
  Event event;
  event.id = row.integer(0), event.time = row.integer(1);
  event.type = row.text(2), event.workload = row.text(3), event.tenant = row.text(4), event.user = row.text(5);
  event.gpu = row.maybe_integer(6), event.pid = row.maybe_integer(7), event.bytes = row.maybe_integer(8);
  event.denial = row.text(9), event.by = row.text(10), event.text = row.text(11);
  event.old_value = row.text(12), event.new_value = row.text(13), event.fix = row.text(14), event.why = row.text(15);
  event.count = row.integer(16), event.first_time = row.integer(17), event.message = row.text(18);
  return event;
}

}  // namespace

template <typename Answer>
auto Reader::of_one_instant(const Answer& answer) -> decltype(answer(std::declval<Database&>())) {
  database_.run("BEGIN");
  auto result = answer(database_);
  (void)database_.outcome();
  database_.run("ROLLBACK");  // ends the view of one instant, also after a failure; there is nothing to write
  (void)database_.outcome();
  return result;
}

Result<Reader> Reader::open(const std::string& path) {
  RATION_TRY(auto database, Database::open(path, Database::Access::kRead));
  std::int64_t version = 0;
  {
    Statement asked(database, "PRAGMA user_version");
    if (asked.row()) version = asked.integer(0);
  }
  RATION_TRY(database.outcome());
  if (version != newest_schema()) {
    return fail("E1911",
                fmt::format("{} has schema {}, but this ration reads schema {}.", path, version, newest_schema()),
                version > newest_schema() ? "Update ration." : "Start its daemon once: that updates the file.");
  }
  return Reader(std::move(database));
}

Result<Report> Reader::usage(const ReportQuestion& question) {
  return of_one_instant([&](Database& database) { return make_report(database, question); });
}

Result<Charges> Reader::charges(const Window& window, Slice slice, Basis basis) {
  return of_one_instant([&](Database& database) { return collect_charges(database, window, slice, basis); });
}

Result<Series> Reader::series(const SeriesQuestion& question) {
  return of_one_instant([&](Database& database) { return make_series(database, question); });
}

Result<Recommendation> Reader::recommend(const RecommendQuestion& question) {
  return of_one_instant([&](Database& database) { return make_recommendation(database, question); });
}

Result<RunReport> Reader::last_run(const std::string& workload) {
  return of_one_instant([&](Database& database) { return make_run_report(database, workload); });
}

Result<std::vector<Event>> Reader::events(const EventQuestion& question) {
  std::string text = std::string(kEventColumns) + "WHERE id > ?1 AND (?2 = '' OR workload = ?2) AND id < ?4";
  if (!question.types.empty()) {
    text += " AND type IN (";
    for (std::size_t place = 0; place < question.types.size(); ++place)
      text += fmt::format("{}?{}", place == 0 ? "" : ", ", place + 5);
    text += ")";
  }
  text += question.since > 0 && question.before == 0 ? " ORDER BY id LIMIT ?3" : " ORDER BY id DESC LIMIT ?3";
  std::vector<Event> events;
  Statement rows(database_, text);
  rows.with(question.since, question.workload, std::clamp<std::int64_t>(question.limit, 0, 100'000),
            question.before > 0 ? question.before : std::numeric_limits<std::int64_t>::max());
  rows.bind_further(5, question.types);
  while (rows.row()) events.push_back(read_event(rows));
  RATION_TRY(database_.outcome());
  if (question.since <= 0 || question.before > 0) std::reverse(events.begin(), events.end());
  return events;
}

Result<Event> Reader::event(std::int64_t id) {
  Statement row(database_, std::string(kEventColumns) + "WHERE id = ?");
  if (row.with(id).row()) return read_event(row);
  RATION_TRY(database_.outcome());
  return fail("E1917", fmt::format("event {} is not recorded, or no longer.", id), "ration events", 3);
}

bool Reader::has(const Event& event) {
  Statement row(database_,
                "SELECT 1 FROM events WHERE (time = ?1 OR (first = ?1 AND first <> 0)) AND type = ?2 AND workload = ?3 "
                "AND tenant = ?4 AND user = ?5 AND denial = ?6 LIMIT 1");
  return row.with(event.time, event.type, event.workload, event.tenant, event.user, event.denial).row();
}

Result<Event> Reader::denial(const std::string& id, const std::string& asker) {
  std::vector<Event> found;
  {
    const bool is_number = !id.empty() && id.find_first_not_of("0123456789") == std::string::npos;
    Statement rows(database_, std::string(kEventColumns) + "WHERE denial <> '' AND " + (is_number ? "id" : "denial") +
                                  " = ? ORDER BY id DESC");
    rows.with(id);
    while (rows.row()) found.push_back(read_event(rows));
  }
  const auto own = std::find_if(found.begin(), found.end(), [&](const Event& each) { return each.user == asker; });
  if (own != found.end()) return std::move(*own);
  const auto other =
      std::find_if(found.begin(), found.end(), [&](const Event& each) { return each.user != found.front().user; });
  if (other != found.end())
    return fail("E1802",
                fmt::format("{} is a denial of {} (event {}) and one of {} (event {}).", id, found.front().user,
                            found.front().id, other->user, other->id),
                command({"why", std::to_string(found.front().id)}), 3);
  if (!found.empty()) return std::move(found.front());
  RATION_TRY(database_.outcome());
  return fail("E1917", fmt::format("denial '{}' is not recorded, or no longer.", id), "ration events --type denied", 3);
}

Result<std::pair<std::int64_t, std::int64_t>> Reader::kept_events() {
  std::pair<std::int64_t, std::int64_t> kept;
  {
    Statement asked(database_, "SELECT ifnull(min(id), 0), ifnull(max(id), 0) FROM events");
    if (asked.row()) kept = {asked.integer(0), asked.integer(1)};
  }
  RATION_TRY(database_.outcome());
  return kept;
}

Result<std::vector<PastRun>> Reader::past_runs(std::size_t runs) {
  std::vector<PastRun> past;
  {
    Statement rows(database_,
                   "SELECT workload, tenant, user, number, command, ended - started FROM "
                   "(SELECT * FROM runs ORDER BY id DESC LIMIT ?) "
                   "WHERE exit_code = 0 AND command <> 0 AND ended >= started ORDER BY ended, id");
    rows.with(static_cast<std::int64_t>(runs));
    while (rows.row()) {
      past.push_back({rows.text(0), rows.text(1), rows.text(2), static_cast<std::uint64_t>(rows.integer(3)),
                      static_cast<std::uint64_t>(rows.integer(4)), rows.integer(5)});
    }
  }
  RATION_TRY(database_.outcome());
  return past;
}

}  // namespace ration::history
