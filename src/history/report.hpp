// Reports how much memory each tenant, user or workload had for how long, and at what cost. Used by `ration report`,
// the Reports page and exports. Promises: the rows add up to capacity × time exactly (`adds_up` is computed, never
// assumed); costs are rounded so that the printed rows add up to the printed sum.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "history/charges.hpp"
#include "history/history.hpp"

namespace ration::history {

enum class By { kTenant, kUser, kWorkload, kLabel, kGpu, kDay };

struct ReportQuestion {
  Window window;
  By by = By::kTenant;
  /// The label's name, for By::kLabel.
  std::string label;
  Basis basis = Basis::kUsed;
  Prices prices;
  std::string currency = "EUR";
  /// The user who asks, so that labels of other users' runs are hidden; absent for an operator, empty for an unknown
  /// user.
  std::optional<std::string> asker;
  /// The way in which idle memory is charged to the rows: not at all, equally, or in proportion to their charges
  /// (kWeighted).
  enum class ShareIdle { kNone, kEven, kWeighted } share_idle = ShareIdle::kNone;
  /// The reason why nothing is being recorded now, if the window includes the present; otherwise empty.
  std::string problem;
};

/// Parses `tenant`, `user`, `workload`, `label:KEY`, `gpu`, `device` (the same as gpu) or `day` into `by` and `label`.
/// Fails with E1916.
[[nodiscard]] Result<void> parse_by(const std::string& text, ReportQuestion& question);
[[nodiscard]] std::string name_of_by(const ReportQuestion& question);

struct ReportRow {
  std::string name;
  Kind kind = Kind::kGoverned;
  ByteTime used, limited, guaranteed, charged;
  /// The part of the charged amount that is shared idle memory.
  ByteTime shared_idle;
  /// The most bytes that one workload of the row held on one device at one moment.
  std::int64_t peak = 0;
  /// The quotient of the used amount and the limit; absent without a limit.
  std::optional<double> efficiency;
  std::int64_t denials = 0;
  /// The exact cost, in byte-milliseconds times billionths of the currency.
  __int128 exact_cost = 0;
  /// The cost in hundredths of the currency.
  std::int64_t cost_cents = 0;
  /// `priced` is true if a part of the row has a price, `unpriced` if a part has none. With both, the cost is partial.
  bool priced = false, unpriced = false;
  /// The pinned host memory of the row's runs; the peak is that of one workload. Absent if the memory was counted for
  /// none of the runs, and in a report by GPU.
  struct Pinned {
    ByteTime used;
    std::int64_t peak = 0, denials = 0;
  };
  std::optional<Pinned> pinned;
  /// True if pinned memory was not counted for a part of the row's time.
  bool pinned_lacks = false;
  /// The device, if the report is by GPU.
  std::string device;

  [[nodiscard]] bool cost_known() const { return priced || !unpriced; }
};

/// Devices with equal recorded time; the rows add up to `Σ capacity × ms` over all terms.
struct SumTerm {
  std::int64_t capacity = 0;
  TimeMs ms = 0;
};

struct Report {
  ReportQuestion question;
  /// The window that the answer covers: whole hours, up to the recorded time.
  TimeMs from = 0, to = 0;
  /// The governed rows, largest amount first, followed by ungoverned, driver, idle, gap and overlap if they exist.
  std::vector<ReportRow> rows;
  ByteTime sum, capacity;
  /// The sum as arithmetic, longest time first; empty if a device changed its capacity in the window.
  std::vector<SumTerm> terms;
  /// The same as in Charges.
  std::optional<TimeMs> recorded_from;
  bool pruned = false;
  std::int64_t cost_cents = 0;
  /// True if a row has a price, or if prices are set and no row lacks one.
  bool cost_known = false;
  /// The number of rows without a price, and the number of rows of which only a part has a price. The cost excludes the
  /// amounts without a price.
  std::size_t unpriced_rows = 0, partly_priced_rows = 0;
  bool adds_up = false;
  std::vector<Gap> gaps;
  std::vector<DeviceFacts> devices;
  /// The name of the month and its seal, if the window is exactly one month; `closed` is absent for an open month.
  std::string period;
  std::optional<ClosedPeriod> closed;
};

/// Makes the report. Requires that the caller has begun a transaction. Fails with E1916 for a question without an
/// answer.
[[nodiscard]] Result<Report> make_report(Database& database, const ReportQuestion& question);

}  // namespace ration::history
