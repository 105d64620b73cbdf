// Writes a report in the formats of other programs; each format has a source file of its own. Used by the HTTP
// interface and `ration report -o`. Promises: names that programs choose are harmless in a spreadsheet, a page or a
// table, because cells that begin like a formula get a leading apostrophe and markup is escaped; amounts are exact if
// the format allows it.
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

/// The facts that exports need besides the charges: the node, its prices, and the question that the charges answer.
struct ExportFacts {
  std::string host;
  Prices prices;
  std::string currency = "EUR";
  Basis basis = Basis::kUsed;
};

/// Writes FOCUS 1.2 cost and usage: one row for each run, device and slice of time, with columns of ration's own, which
/// begin with `x_`. ConsumedQuantity is the used amount, PricingQuantity the charged amount, both in GiB-Hours. Charges
/// by day (Slice::kDay) keep every row within one billing month. Pinned host memory has rows of its own after all other
/// rows, with the SkuId `pinned-host-memory`; nothing is charged for it.
[[nodiscard]] std::string to_focus(const Charges& charges, const ExportFacts& facts);

/// Returns the answer of OpenCost's /allocation: one set for the window, or one per day with Slice::kDay. GPU hours
/// count shares of a device: half its memory for two hours is one GPU hour.
[[nodiscard]] nlohmann::json to_opencost(const Charges& charges, const ExportFacts& facts);

}  // namespace ration::history
