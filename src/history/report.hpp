// Reports how much memory each tenant, user or workload had for how long, and the cost: `ration report`, the Reports
// page, exports. Promises: the rows add up to capacity × time exactly (`adds_up` is checked, never assumed); costs are
// rounded so that the printed rows add up to the printed sum.
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
  /// For By::kLabel.
  std::string label;
  Basis basis = Basis::kUsed;
  Prices prices;
  std::string currency = "EUR";
  /// The asking user unless it is an operator, since labels of other users' runs are hidden. Empty: an unknown user.
  std::optional<std::string> asker;
  /// How idle memory is charged. kWeighted: in proportion to each charge.
  enum class ShareIdle { kNone, kEven, kWeighted } share_idle = ShareIdle::kNone;
  /// Why nothing is recorded at this moment, if the window includes it; empty: it is recorded.
  std::string problem;
};

/// Parses `tenant user workload label:KEY gpu device day` (device is gpu) into `by` and `label`; E1916.
[[nodiscard]] Result<void> parse_by(const std::string& text, ReportQuestion& question);
[[nodiscard]] std::string name_of_by(const ReportQuestion& question);

struct ReportRow {
  std::string name;
  Kind kind = Kind::kGoverned;
  ByteTime used, limited, guaranteed, charged;
  /// The part of the charged amount that is shared idle memory.
  ByteTime shared_idle;
  /// The most that one of its workloads held on one device at one moment.
  std::int64_t peak = 0;
  /// Used divided by limit; absent: there was no limit.
  std::optional<double> efficiency;
  std::int64_t denials = 0;
  /// In byte-milliseconds times billionths of the currency.
  __int128 exact_cost = 0;
  /// In hundredths of the currency.
  std::int64_t cost_cents = 0;
  /// Whether a part of it has a price, and whether a part has none: if both, the cost is partial.
  bool priced = false, unpriced = false;
  /// Set if the report is by GPU.
  std::string device;

  [[nodiscard]] bool cost_known() const { return priced || !unpriced; }
};

/// Devices that were recorded equally long; the rows add up to `Σ capacity × ms` of all terms.
struct SumTerm {
  std::int64_t capacity = 0;
  TimeMs ms = 0;
};

struct Report {
  ReportQuestion question;
  /// The window of the answer: whole hours, up to what is recorded.
  TimeMs from = 0, to = 0;
  /// Governed ones by amount; then ungoverned, driver, idle, gap, overlap if there are any.
  std::vector<ReportRow> rows;
  ByteTime sum, capacity;
  /// The sum as arithmetic, longest first; empty if a device changed its capacity meanwhile.
  std::vector<SumTerm> terms;
  /// As in Charges.
  std::optional<TimeMs> recorded_from;
  bool pruned = false;
  std::int64_t cost_cents = 0;
  /// True if any row has a price.
  bool cost_known = false;
  /// Rows without a price, and rows with a price for a part only: the cost excludes the rest.
  std::size_t unpriced_rows = 0, partly_priced_rows = 0;
  bool adds_up = false;
  std::vector<Gap> gaps;
  std::vector<DeviceFacts> devices;
  /// If the window is exactly one month: its name, and its seal if there is one.
  std::string period;
  std::optional<ClosedPeriod> closed;
};

/// Makes the report. Requires a transaction of the caller.
[[nodiscard]] Result<Report> make_report(Database& database, const ReportQuestion& question);

}  // namespace ration::history
