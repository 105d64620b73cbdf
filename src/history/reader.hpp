// Queries to the history, on a read-only connection of its own: a worker thread may hold one while the daemon's main
// loop records. Used by the HTTP interface and by the command line's report, recommend, events. Promises: every answer
// shows one instant, without uncommitted data. E1919 if the file turns out to be damaged (History::check() then sets it
// aside; open the Reader again). Not thread-safe: one Reader for each thread.
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
  /// Only events after this number; 0: the newest ones.
  std::int64_t since = 0;
  /// Only events before this number, the newest of them; 0: no bound.
  std::int64_t before = 0;
  /// Empty: all types.
  std::vector<std::string> types;
  std::string workload;
  std::int64_t limit = 200;
};

/// A run that succeeded.
struct PastRun {
  std::string workload, tenant, user;
  std::uint64_t number = 0;   ///< the run's
  std::uint64_t command = 0;  ///< a hash of its command line
  TimeMs lasted = 0;
};

class Reader {
 public:
  [[nodiscard]] static Result<Reader> open(const std::string& path);

  /// Returns the amounts by tenant, user or other key. E1916 for a question that cannot be answered (a window without
  /// an hour, an unknown label key form).
  [[nodiscard]] Result<Report> usage(const ReportQuestion& question);
  /// As usage(), but one line for each run, device and day: for chargeback exports.
  [[nodiscard]] Result<Charges> charges(const Window& window, Slice slice, Basis basis);

  [[nodiscard]] Result<Series> series(const SeriesQuestion& question);

  /// Returns events, oldest first: with `since` the first `limit` after it, so that a client may page on; without it
  /// the newest.
  [[nodiscard]] Result<std::vector<Event>> events(const EventQuestion& question);
  /// Returns an event. E1917: it does not exist, or not any more.
  [[nodiscard]] Result<Event> event(std::int64_t id);
  /// Returns true if that event is recorded already: one with the same type, workload, denial and time (or first time).
  [[nodiscard]] bool has(const Event& event);
  /// Finds a denial by `d-17-3`, or by the number of its event. If several users have a denial with that name, the
  /// newest of `asker`. E1917: none; E1802: there are several, and none is the asker's.
  [[nodiscard]] Result<Event> denial(const std::string& id, const std::string& asker);
  /// Returns the numbers of the oldest and newest kept event; 0 if there is none.
  [[nodiscard]] Result<std::pair<std::int64_t, std::int64_t>> kept_events();

  /// Recommends a limit; `workload` is `train` or `nlp/train`. E1917 for one that never ran.
  [[nodiscard]] Result<Recommendation> recommend(const RecommendQuestion& question);
  /// Reports the newest run of one workload, or (empty) of all. E1917.
  [[nodiscard]] Result<RunReport> last_run(const std::string& workload);

  /// Returns those among the newest `runs` that ended with 0, in the order of their ends.
  [[nodiscard]] Result<std::vector<PastRun>> past_runs(std::size_t runs);

 private:
  explicit Reader(Database database) : database_(std::move(database)) {}
  template <typename Answer>
  auto of_one_instant(const Answer& answer) -> decltype(answer(std::declval<Database&>()));

  Database database_;
};

}  // namespace ration::history
