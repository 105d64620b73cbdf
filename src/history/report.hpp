// Who had how much memory for how long, and what that costs: `ration report`, the Reports page, exports.
// Promises: the rows add up to capacity × time exactly (`adds_up` is checked, never assumed); costs are rounded so that
// the printed rows add up to the printed sum.
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
  /// Who asks, where that is not an operator: labels of others' runs are not theirs to see. Empty: nobody known.
  std::optional<std::string> asker;
  /// Who pays for what nobody held. kWeighted: by what each is charged.
  enum class ShareIdle { kNone, kEven, kWeighted } share_idle = ShareIdle::kNone;
  /// Why nothing is recorded at this moment, where the window has this moment; empty: it is.
  std::string problem;
};

/// `tenant user workload label:KEY gpu device day` (device is gpu) into `by` and `label`; E1916.
[[nodiscard]] Result<void> parse_by(const std::string& text, ReportQuestion& question);
[[nodiscard]] std::string name_of_by(const ReportQuestion& question);

struct ReportRow {
  std::string name;
  Kind kind = Kind::kGoverned;
  ByteTime used, limited, guaranteed, charged;
  /// Of the charged amount, what was idle and is shared out.
  ByteTime shared_idle;
  /// The most that one workload of it held at once on one device.
  std::int64_t peak = 0;
  /// Used of limit; none where there was no limit.
  std::optional<double> efficiency;
  std::int64_t denials = 0;
  /// In byte-milliseconds times billionths of the currency.
  __int128 exact_cost = 0;
  /// In hundredths of the currency.
  std::int64_t cost_cents = 0;
  /// Whether something of it has a price, and whether something has none: with both the cost is a part.
  bool priced = false, unpriced = false;
  /// Where the report is by GPU.
  std::string device;

  [[nodiscard]] bool cost_known() const { return priced || !unpriced; }
};

/// Devices that were recorded equally long: `Σ capacity × ms` of all is what the rows add up to.
struct SumTerm {
  std::int64_t capacity = 0;
  TimeMs ms = 0;
};

struct Report {
  ReportQuestion question;
  /// As answered: whole hours, up to what is recorded.
  TimeMs from = 0, to = 0;
  /// Governed ones by amount; then ungoverned, driver, idle, gap, overlap where there are any.
  std::vector<ReportRow> rows;
  ByteTime sum, capacity;
  /// The sum as arithmetic, longest first; empty where a device changed its capacity meanwhile.
  std::vector<SumTerm> terms;
  /// As in Charges.
  std::optional<TimeMs> recorded_from;
  bool pruned = false;
  std::int64_t cost_cents = 0;
  /// Whether anything has a price.
  bool cost_known = false;
  /// Rows without a price, and rows of which only a part has one: the cost is that of the others.
  std::size_t unpriced_rows = 0, partly_priced_rows = 0;
  bool adds_up = false;
  std::vector<Gap> gaps;
  std::vector<DeviceFacts> devices;
  /// Where the window is exactly one month: its name, and whether and how it was sealed.
  std::string period;
  std::optional<ClosedPeriod> closed;
  /// Of all closed months in the window. They are lines beside the sum, which says what was measured.
  std::vector<Adjustment> adjustments;
};

/// Inside a transaction of the caller.
[[nodiscard]] Result<Report> make_report(Database& database, const ReportQuestion& question);

}  // namespace ration::history
