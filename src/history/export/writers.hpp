// A report in the forms that others read. One file each. Used by the HTTP interface and `ration report -o`.
// Promises: names that programs choose can do nothing in a spreadsheet, a page or a table: cells that begin like a
// formula are led by an apostrophe, markup is escaped; amounts are exact where the form allows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "history/charges.hpp"
#include "history/report.hpp"

namespace ration::history {

/// The `data` of docs/http-api.md, Usage report.
[[nodiscard]] nlohmann::json to_json(const Report& report);
[[nodiscard]] std::string to_csv(const Report& report);
[[nodiscard]] std::string to_markdown(const Report& report);
/// One page without any request to elsewhere, light and dark.
[[nodiscard]] std::string to_html(const Report& report);

/// Who exports, and at which prices; the question that `charges` answers.
struct ExportFacts {
  std::string host;
  Prices prices;
  std::string currency = "EUR";
  Basis basis = Basis::kUsed;
};

/// FOCUS 1.2 cost and usage: one row for each run, device and slice; own columns begin with `x_`. ConsumedQuantity is
/// what was used, PricingQuantity what is charged for, both in GiB-Hours. Days (Slice::kDay) keep every row within one
/// billing month.
[[nodiscard]] std::string to_focus(const Charges& charges, const ExportFacts& facts);

/// The answer of OpenCost's /allocation: one set over the window, or one a day with Slice::kDay. GPU hours are shares
/// of a device: half its memory for two hours is one.
[[nodiscard]] nlohmann::json to_opencost(const Charges& charges, const ExportFacts& facts);

}  // namespace ration::history
