// Answers queries on a read-only connection of its own to the history, so that a worker thread may use it while the
// daemon's main loop records. Used by the HTTP interface and by the verbs report, recommend and events. Promise: every
// answer shows one instant, without uncommitted data. Every query fails with E1919 if the file proves damaged: then
// History::check() sets it aside, and the Reader must be opened again. Not thread-safe: each thread has its own Reader.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "history/charges.hpp"
#include "history/history.hpp"
#include "history/recommend.hpp"
#include "history/report.hpp"
#include "history/run_report.hpp"
#include "history/series.hpp"

namespace ration::history {

struct EventQuestion {
  /// The number after which events begin; 0 for the newest ones.
  std::int64_t since = 0;
  /// The number before which the newest events end; 0 for no bound.
  std::int64_t before = 0;
  /// The wanted types; empty for all.
  std::vector<std::string> types;
  std::string workload;
  std::int64_t limit = 200;
};

/// A run that succeeded.
struct PastRun {
  std::string workload, tenant, user;
  std::uint64_t number = 0;   ///< number of the run
  std::uint64_t command = 0;  ///< hash of its command line
  TimeMs lasted = 0;
};

class Reader {
 public:
  [[nodiscard]] static Result<Reader> open(const std::string& path);

  /// Returns the amounts by tenant, user or another key. Fails with E1916 for a question that has no answer, such as
  /// one for a window without an hour.
  [[nodiscard]] Result<Report> usage(const ReportQuestion& question);
  /// Returns the amounts like usage(), but one line for each run, device and slice, for chargeback exports.
  [[nodiscard]] Result<Charges> charges(const Window& window, Slice slice, Basis basis);

  [[nodiscard]] Result<Series> series(const SeriesQuestion& question);

  /// Returns events, oldest first: with `since`, the `limit` events after that number, so that a client can page;
  /// otherwise the newest.
  [[nodiscard]] Result<std::vector<Event>> events(const EventQuestion& question);
  /// Returns an event. Fails with E1917 if it does not exist, or has been removed.
  [[nodiscard]] Result<Event> event(std::int64_t id);
  /// Returns true if the event is recorded already. A recorded event is the same if it has the same type, workload,
  /// tenant, user and denial, and its time or first time is the event's time.
  [[nodiscard]] bool has(const Event& event);
  /// Finds a denial by `d-17-3`, or by the number of its event. If several users have a denial of that name, returns
  /// the newest denial of `asker`. Fails with E1917 if there is no denial of that name, and with E1802 if several users
  /// have one but `asker` has none.
  [[nodiscard]] Result<Event> denial(const std::string& id, const std::string& asker);
  /// Returns the numbers of the oldest and the newest kept event; 0 if no events are kept.
  [[nodiscard]] Result<std::pair<std::int64_t, std::int64_t>> kept_events();

  /// Recommends a limit; `workload` is `train` or `nlp/train`. Fails with E1917 for a workload that never ran.
  [[nodiscard]] Result<Recommendation> recommend(const RecommendQuestion& question);
  /// Reports the newest run of `workload`, or of all workloads if the text is empty. Fails with E1917 if there is no
  /// run.
  [[nodiscard]] Result<RunReport> last_run(const std::string& workload);

  /// Returns those of the newest `runs` runs that succeeded (exit code 0), in the order of their ends.
  [[nodiscard]] Result<std::vector<PastRun>> past_runs(std::size_t runs);

 private:
  explicit Reader(Database database) : database_(std::move(database)) {}
  template <typename Answer>
  auto of_one_instant(const Answer& answer) -> decltype(answer(std::declval<Database&>()));

  Database database_;
};

}  // namespace ration::history
