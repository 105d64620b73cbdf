// Writes a report in the formats of other programs, one file each. Used by the HTTP interface and `ration report -o`.
// Promises: names that programs choose are harmless in a spreadsheet, a page or a table: cells that begin like a
// formula get a leading apostrophe, markup is escaped; amounts are exact if the format allows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "history/charges.hpp"
#include "history/report.hpp"

namespace ration::history {

/// Returns the `data` of docs/http-api.md, Usage report.
[[nodiscard]] nlohmann::json to_json(const Report& report);
[[nodiscard]] std::string to_csv(const Report& report);
[[nodiscard]] std::string to_markdown(const Report& report);

/// The exporting node and its prices; the question that `charges` answers.
struct ExportFacts {
  std::string host;
  Prices prices;
  std::string currency = "EUR";
  Basis basis = Basis::kUsed;
};

/// Writes FOCUS 1.2 cost and usage: one row for each run, device and slice of time; own columns begin with `x_`.
/// ConsumedQuantity is what was used, PricingQuantity what is charged, both in GiB-Hours. Days (Slice::kDay) keep every
/// row within one billing month.
[[nodiscard]] std::string to_focus(const Charges& charges, const ExportFacts& facts);

/// Returns the answer of OpenCost's /allocation: one set over the window, or one per day with Slice::kDay. GPU hours
/// are shares of a device: half its memory for two hours is one.
[[nodiscard]] nlohmann::json to_opencost(const Charges& charges, const ExportFacts& facts);

}  // namespace ration::history
