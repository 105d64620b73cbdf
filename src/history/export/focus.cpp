// Writes the columns of FOCUS 1.2 (focus.finops.org) that have a meaning here: all mandatory ones, and the conditional
// ones for usage, resources and sub-accounts. Columns of ration's own come last and begin with x_.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/labels.hpp"
#include "history/export/cells.hpp"
#include "history/export/writers.hpp"
#include "history/periods.hpp"

namespace ration::history {
namespace {

struct Line {
  const ChargeLine& charge;
  const ExportFacts& facts;
  RunFacts run;
  DeviceFacts device;
  TimeMs from = 0, to = 0;
  bool governed = false;
  std::int64_t price_nano = 0;
  bool pinned = false;  ///< true for pinned host memory, which is on the node and on no device
};

using Cell = std::function<void(CsvRow&, const Line&)>;

const char* service_of(const Line& line) { return line.pinned ? "Pinned host memory" : "GPU memory"; }
const char* sku_of(const Line& line) { return line.pinned ? "pinned-host-memory" : "gpu-memory"; }

// Formats a time in whole seconds, as FOCUS requires.
std::string instant(TimeMs time) { return rfc3339(time).substr(0, 19) + "Z"; }

std::string tags(const std::string& labels) {
  const nlohmann::json all = parse_labels(labels);
  return all.empty() ? std::string() : all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Cell text(std::string value) {
  return [value = std::move(value)](CsvRow& row, const Line&) { row.text(value); };
}
Cell empty() {
  return [](CsvRow& row, const Line&) { row.empty(); };
}
// Writes the cost, which is zero for time in which no daemon ran.
void cost(CsvRow& row, const Line& line) {
  row.number(exact_cost(line.charge.kind == Kind::kGap ? ByteTime{} : line.charge.charged, line.price_nano));
}
void price(CsvRow& row, const Line& line) {
  row.number(exact_cost(ByteTime{(__int128{1} << 30) * kHourMs}, line.price_nano));
}

const std::vector<std::pair<const char*, Cell>>& columns() {
  static const std::vector<std::pair<const char*, Cell>> kColumns{
      {"BilledCost", cost},
      {"BillingAccountId", [](CsvRow& row, const Line& line) { row.text(line.facts.host); }},
      {"BillingAccountName", [](CsvRow& row, const Line& line) { row.text(line.facts.host); }},
      {"BillingAccountType", text("Node")},
      {"BillingCurrency", [](CsvRow& row, const Line& line) { row.text(line.facts.currency); }},
      {"BillingPeriodEnd",
       [](CsvRow& row, const Line& line) { row.text(instant(month_of(month_name(line.from))->second)); }},
      {"BillingPeriodStart",
       [](CsvRow& row, const Line& line) { row.text(instant(month_of(month_name(line.from))->first)); }},
      // Overlap is a correction and no usage: it is negative, because hours were charged twice.
      {"ChargeCategory",
       [](CsvRow& row, const Line& line) { row.text(line.charge.kind == Kind::kOverlap ? "Adjustment" : "Usage"); }},
      {"ChargeClass", empty()},
      {"ChargeDescription",
       [](CsvRow& row, const Line& line) {
         row.text(line.governed ? fmt::format("{} of {}/{}, run {}, basis {}", service_of(line), line.run.tenant,
                                              line.run.workload, line.run.number, name_of(line.facts.basis))
                                : fmt::format("GPU memory, {}", name_of(line.charge.kind)));
       }},
      {"ChargeFrequency", text("Usage-Based")},
      {"ChargePeriodEnd", [](CsvRow& row, const Line& line) { row.text(instant(line.to)); }},
      {"ChargePeriodStart", [](CsvRow& row, const Line& line) { row.text(instant(line.from)); }},
      {"ConsumedQuantity",
       [](CsvRow& row, const Line& line) {
         if (line.charge.kind == Kind::kOverlap)
           row.empty();
         else
           row.number(exact_gib_hours(line.governed ? line.charge.used : line.charge.charged));
       }},
      {"ConsumedUnit",
       [](CsvRow& row, const Line& line) { row.text(line.charge.kind == Kind::kOverlap ? "" : "GiB-Hours"); }},
      {"ContractedCost", cost},
      {"ContractedUnitPrice", price},
      {"EffectiveCost", cost},
      {"InvoiceIssuerName", text("ration")},
      {"ListCost", cost},
      {"ListUnitPrice", price},
      {"PricingCategory", text("Standard")},
      {"PricingQuantity", [](CsvRow& row, const Line& line) { row.number(exact_gib_hours(line.charge.charged)); }},
      {"PricingUnit", text("GiB-Hours")},
      {"ProviderName", text("ration")},
      {"PublisherName", text("ration")},
      {"ResourceId", [](CsvRow& row, const Line& line) { row.text(line.pinned ? line.facts.host : line.device.uuid); }},
      {"ResourceName",
       [](CsvRow& row, const Line& line) { row.text(line.pinned ? line.facts.host : line.device.name); }},
      {"ResourceType", [](CsvRow& row, const Line& line) { row.text(line.pinned ? "Node" : "GPU"); }},
      {"ServiceCategory", text("Compute")},
      {"ServiceName", [](CsvRow& row, const Line& line) { row.text(service_of(line)); }},
      {"ServiceSubcategory", text("Other (Compute)")},
      {"SkuId", [](CsvRow& row, const Line& line) { row.text(sku_of(line)); }},
      {"SkuPriceId",
       [](CsvRow& row, const Line& line) {
         const bool own = !line.pinned && line.facts.prices.of_tenants.count(line.run.tenant) != 0;
         row.text(sku_of(line) + ("/" + name_of(line.facts.basis) + (own ? "/" + line.run.tenant : "")));
       }},
      {"SubAccountId", [](CsvRow& row, const Line& line) { row.text(line.run.tenant); }},
      {"SubAccountName", [](CsvRow& row, const Line& line) { row.text(line.run.tenant); }},
      {"SubAccountType", [](CsvRow& row, const Line& line) { row.text(line.governed ? "Tenant" : ""); }},
      {"Tags", [](CsvRow& row, const Line& line) { row.text(tags(line.run.labels)); }},
      {"x_Kind", [](CsvRow& row, const Line& line) { row.text(line.pinned ? "pinned" : name_of(line.charge.kind)); }},
      {"x_Workload", [](CsvRow& row, const Line& line) { row.text(line.run.workload); }},
      {"x_User", [](CsvRow& row, const Line& line) { row.text(line.run.user); }},
      {"x_Run", [](CsvRow& row, const Line& line) { line.governed ? row.number(line.run.number) : row.empty(); }},
      {"x_UsedByteSeconds", [](CsvRow& row, const Line& line) { row.number(byte_seconds(line.charge.used)); }},
      {"x_LimitByteSeconds",
       [](CsvRow& row, const Line& line) { row.number(line.pinned ? "" : byte_seconds(line.charge.limited)); }},
      {"x_GuaranteeByteSeconds",
       [](CsvRow& row, const Line& line) { row.number(line.pinned ? "" : byte_seconds(line.charge.guaranteed)); }},
      {"x_ChargedByteSeconds", [](CsvRow& row, const Line& line) { row.number(byte_seconds(line.charge.charged)); }},
      {"x_PeakBytes", [](CsvRow& row, const Line& line) { row.number(line.charge.peak); }},
      {"x_Denials", [](CsvRow& row, const Line& line) { row.number(line.charge.denials); }},
  };
  return kColumns;
}

}  // namespace

std::string to_focus(const Charges& charges, const ExportFacts& facts) {
  CsvRow head;
  for (const auto& [name, cell] : columns()) head.text(name);
  std::string document = head.line();
  const auto enter = [&](const ChargeLine& charge, bool pinned) {
    Line line{charge, facts, {}, {}, charge.from, charges.to, charge.kind == Kind::kGoverned, 0, pinned};
    if (charges.sliced == Slice::kDay) line.to = std::min(charges.to, charge.from / kDayMs * kDayMs + kDayMs);
    const RunFacts* run = charges.run_of(charge);
    if (run != nullptr) line.run = *run;
    if (!pinned) line.price_nano = facts.prices.of(run);
    if (const auto device = charges.devices.find(charge.device); device != charges.devices.end())
      line.device = device->second;
    CsvRow row;
    for (const auto& [name, cell] : columns()) cell(row, line);
    document += row.line();
  };
  for (const ChargeLine& charge : charges.lines) enter(charge, false);
  for (const PinnedLine& pinned : charges.pinned) {
    if (pinned.peak == 0 && pinned.denials == 0) continue;
    ChargeLine charge;
    charge.from = pinned.from, charge.run = pinned.run, charge.ms = pinned.ms;
    charge.used = pinned.used, charge.peak = pinned.peak, charge.denials = pinned.denials;
    enter(charge, true);
  }
  return document;
}

}  // namespace ration::history
