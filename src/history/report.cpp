#include "history/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/labels.hpp"
#include "history/periods.hpp"

namespace ration::history {
namespace {

// One cent as an exact cost: 10^7 billionths of the currency × the byte-milliseconds of a GiB·h.
constexpr __int128 kCent = kByteMsPerGibHour * 10'000'000;

std::string label_value(const std::string& labels, const std::string& key) {
  const auto all = parse_labels(labels);
  const auto found = all.find(key);
  return found != all.end() ? found->second : fmt::format("(without {})", key);
}

std::string device_of(const Charges& charges, const ChargeLine& line) {
  const auto device = charges.devices.find(line.device);
  return device == charges.devices.end() ? "?" : device->second.uuid;
}

std::string governed_name(const ReportQuestion& question, const Charges& charges, const ChargeLine& line) {
  if (question.by == By::kGpu) return device_of(charges, line);
  if (question.by == By::kDay) return rfc3339(line.from).substr(0, 10);
  const RunFacts* run = charges.run_of(line);
  if (run == nullptr) return "?";
  const RunFacts& facts = *run;
  switch (question.by) {
    case By::kUser:
      return facts.user;
    case By::kWorkload:
      return facts.tenant + "/" + facts.workload;
    case By::kLabel:
      return label_value(facts.labels, question.label);
    default:
      return facts.tenant;
  }
}

std::string other_name(Kind kind) {
  switch (kind) {
    case Kind::kUngoverned:
      return "(ungoverned)";
    case Kind::kDriver:
      return "(driver's own)";
    case Kind::kIdle:
      return "(idle, not held)";
    case Kind::kGap:
      return "(not recorded)";
    default:
      return "(charged twice)";
  }
}

// Divides `total` into whole parts in the ratio of `weights`; the parts add up to `total`.
std::vector<__int128> apportion(__int128 total, const std::vector<__int128>& weights) {
  std::vector<__int128> parts(weights.size());
  const __int128 all = std::accumulate(weights.begin(), weights.end(), __int128{0});
  if (weights.empty() || all == 0) return parts;
  // Bounds the sum of the weights: 2^82 byte-milliseconds (64 devices of 2 TiB for 400 days) times 2^40 still fit.
  __int128 scale = 1;
  while (all / scale >= (__int128{1} << 40)) scale *= 2;
  __int128 given = 0;
  for (std::size_t index = 0; index < weights.size(); ++index) {
    parts[index] = total * (weights[index] / scale) / (all / scale);
    given += parts[index];
  }
  // Distributes the rest equally, and then the units that remain, one by one, to the largest weights first.
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto left, auto right) { return weights[left] > weights[right]; });
  __int128 rest = total - given;
  const auto count = static_cast<__int128>(order.size());
  for (const std::size_t index : order) parts[index] += rest / count;
  rest -= rest / count * count;
  for (std::size_t place = 0; rest != 0; ++place) {
    parts[order[place % order.size()]] += rest > 0 ? 1 : -1;
    rest += rest > 0 ? -1 : 1;
  }
  return parts;
}

void share_idle_out(Report& report) {
  if (report.question.share_idle == ReportQuestion::ShareIdle::kNone) return;
  ByteTime idle;
  std::vector<ReportRow*> payers;
  std::vector<__int128> weights;
  for (ReportRow& row : report.rows) {
    if (row.kind == Kind::kIdle) idle += row.charged;
    if (row.kind != Kind::kGoverned) continue;
    payers.push_back(&row);
    weights.push_back(report.question.share_idle == ReportQuestion::ShareIdle::kEven ? 1 : row.charged.byte_ms());
  }
  const bool somebody = std::any_of(weights.begin(), weights.end(), [](__int128 weight) { return weight > 0; });
  if (idle == ByteTime{} || !somebody) return;
  const auto parts = apportion(idle.byte_ms(), weights);
  const bool priced = report.question.prices.known(nullptr);
  for (std::size_t index = 0; index < payers.size(); ++index) {
    payers[index]->shared_idle = ByteTime{parts[index]};
    payers[index]->charged += ByteTime{parts[index]};
    payers[index]->exact_cost += parts[index] * report.question.prices.general;
    if (parts[index] != 0) (priced ? payers[index]->priced : payers[index]->unpriced) = true;
  }
  std::erase_if(report.rows, [](const ReportRow& row) { return row.kind == Kind::kIdle; });
}

// Rounds the cost of every row down to a cent, and adds the missing cents to the rows with the largest remainders.
void round_costs(Report& report) {
  __int128 exact = 0;
  for (const ReportRow& row : report.rows) exact += row.exact_cost;
  report.cost_cents = static_cast<std::int64_t>((exact + kCent / 2) / kCent);
  std::vector<std::pair<__int128, ReportRow*>> remainders;
  std::int64_t given = 0;
  for (ReportRow& row : report.rows) {
    if (row.kind == Kind::kGap || !row.cost_known()) continue;
    __int128 cents = row.exact_cost / kCent;
    if (row.exact_cost < 0 && cents * kCent != row.exact_cost) --cents;
    row.cost_cents = static_cast<std::int64_t>(cents);
    given += row.cost_cents;
    remainders.emplace_back(row.exact_cost - cents * kCent, &row);
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& left, const auto& right) { return left.first > right.first; });
  for (std::size_t index = 0; given < report.cost_cents && index < remainders.size(); ++index, ++given)
    ++remainders[index].second->cost_cents;
}

void count_priced(Report& report) {
  for (const ReportRow& row : report.rows) {
    if (row.kind != Kind::kGap && row.priced) report.cost_known = true;
    if (!row.cost_known()) ++report.unpriced_rows;
    if (row.priced && row.unpriced) ++report.partly_priced_rows;
  }
  if (report.unpriced_rows == 0) report.cost_known = report.question.prices.any();
}

// Adds the line to its row. Time in which no daemon ran costs nothing.
void add_line(ReportRow& row, const ChargeLine& line, const Prices& prices, const RunFacts* run) {
  row.used += line.used, row.limited += line.limited, row.guaranteed += line.guaranteed;
  row.charged += line.charged;
  row.peak = std::max(row.peak, line.peak);
  row.denials += line.denials;
  if (line.kind == Kind::kGap) return;
  row.exact_cost += line.charged.byte_ms() * prices.of(run);
  (prices.known(run) ? row.priced : row.unpriced) = true;
}

// Returns the terms with which a person would calculate the sum of the rows.
std::vector<SumTerm> terms_of(const Charges& charges) {
  std::map<TimeMs, std::int64_t> capacities;
  ByteTime whole;
  for (const auto& [id, ms] : charges.recorded_ms) {
    const auto device = charges.devices.find(id);
    if (device == charges.devices.end()) return {};
    capacities[ms] += device->second.capacity;
    whole += ByteTime{__int128{device->second.capacity} * ms};
  }
  std::vector<SumTerm> terms;
  if (!(whole == charges.capacity)) return terms;
  for (const auto& [ms, capacity] : capacities) terms.insert(terms.begin(), {capacity, ms});
  return terms;
}

std::string row_name(const ReportQuestion& question, const Charges& charges, const ChargeLine& line) {
  if (line.kind == Kind::kGoverned) return governed_name(question, charges, line);
  return other_name(line.kind) + (question.by == By::kGpu ? " " + device_of(charges, line) : "");
}

/// Enters the pinned host memory of runs in their rows. Pinned memory is on no GPU, so a report by GPU shows none.
void add_pinned(const ReportQuestion& question, const Charges& charges,
                std::map<std::pair<Kind, std::string>, ReportRow>& rows) {
  if (question.by == By::kGpu) return;
  std::map<std::pair<TimeMs, std::int64_t>, const PinnedLine*> lines;
  for (const PinnedLine& line : charges.pinned) lines[{line.from, line.run}] = &line;
  std::set<const PinnedLine*> entered;  // a run has a line for each of its devices
  for (const ChargeLine& line : charges.lines) {
    if (line.kind != Kind::kGoverned) continue;
    ReportRow& row = rows.at({line.kind, row_name(question, charges, line)});
    const auto found = lines.find({line.from, line.run});
    if (found == lines.end() || found->second->ms < line.ms) row.pinned_lacks = true;
    if (found == lines.end() || !entered.insert(found->second).second) continue;
    const PinnedLine& pinned = *found->second;
    auto& sums = row.pinned ? *row.pinned : row.pinned.emplace();
    sums.used += pinned.used, sums.denials += pinned.denials;
    sums.peak = std::max(sums.peak, pinned.peak);
  }
}

}  // namespace

Result<void> parse_by(const std::string& text, ReportQuestion& question) {
  for (const auto& [by, name] : {std::pair{By::kTenant, "tenant"},
                                 {By::kUser, "user"},
                                 {By::kWorkload, "workload"},
                                 {By::kGpu, "gpu"},
                                 {By::kGpu, "device"},
                                 {By::kDay, "day"}}) {
    if (text == name) {
      question.by = by;
      return {};
    }
  }
  if (text.size() > 6 && text.compare(0, 6, "label:") == 0) {
    question.by = By::kLabel;
    question.label = text.substr(6);
    return {};
  }
  return fail("E1916", fmt::format("'{}' is not a value of --by.", text),
              "Give one of: tenant, user, workload, label:KEY, gpu (or device), day.", 2);
}

std::string name_of_by(const ReportQuestion& question) {
  switch (question.by) {
    case By::kTenant:
      return "tenant";
    case By::kUser:
      return "user";
    case By::kWorkload:
      return "workload";
    case By::kLabel:
      return "label:" + question.label;
    case By::kGpu:
      return "gpu";
    default:
      return "day";
  }
}

Result<Report> make_report(Database& database, const ReportQuestion& question) {
  RATION_TRY(auto charges, collect_charges(database, question.window,
                                           question.by == By::kDay ? Slice::kDay : Slice::kWhole, question.basis));
  if (question.asker) charges.hide_labels_from(*question.asker);
  Report report;
  report.question = question;
  report.from = charges.from, report.to = charges.to;
  report.gaps = charges.gaps;
  report.capacity = charges.capacity, report.terms = terms_of(charges);
  report.recorded_from = charges.recorded_from, report.pruned = charges.pruned;
  std::map<std::pair<Kind, std::string>, ReportRow> rows;
  std::map<std::int64_t, bool> devices;
  for (const ChargeLine& line : charges.lines) {
    devices[line.device] = true;
    const std::string name = row_name(question, charges, line);
    ReportRow& row = rows[{line.kind, name}];
    row.name = name, row.kind = line.kind;
    if (question.by == By::kGpu) row.device = device_of(charges, line);
    add_line(row, line, question.prices, charges.run_of(line));
  }
  add_pinned(question, charges, rows);
  for (auto& [key, row] : rows) {
    if (row.limited > ByteTime{})
      row.efficiency = static_cast<double>(row.used.byte_ms()) / static_cast<double>(row.limited.byte_ms());
    report.rows.push_back(row);
  }
  for (const auto& [id, seen] : devices) {
    if (const auto device = charges.devices.find(id); device != charges.devices.end())
      report.devices.push_back(device->second);
  }
  share_idle_out(report);
  std::stable_sort(report.rows.begin(), report.rows.end(), [&](const ReportRow& left, const ReportRow& right) {
    if (left.kind != right.kind) return left.kind < right.kind;
    return question.by != By::kDay && left.charged > right.charged;
  });
  for (const ReportRow& row : report.rows) report.sum += row.charged;
  report.adds_up = charges.consistent && report.sum == report.capacity;
  round_costs(report);
  count_priced(report);

  report.period = month_name(report.from);
  const auto month = month_of(report.period);
  if (month && month->first == question.window.from && month->second == question.window.to)
    report.closed = read_period(database, report.period);
  else
    report.period.clear();
  RATION_TRY(database.outcome());
  return report;
}

}  // namespace ration::history
