#include "history/denied_requests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.hpp"

namespace ration::history {
namespace {

// The bound of a recorded number. Programs may request any size; sums of bounded numbers still fit.
constexpr std::uint64_t kMaxBytes = kUnlimited.count() / 2;

Bytes at_most(std::uint64_t count) { return Bytes{std::min(count, kMaxBytes)}; }

/// Returns the request. Returns nothing if it is not recorded, or if it was denied for another reason than a lack of
/// memory (such a denial, for a device that the run was not given, has no limit).
std::optional<DeniedRequests> denied_request_of(const std::string& why, std::int64_t requested) {
  const auto record = nlohmann::json::parse(why, nullptr, false);
  const auto amount = [&](const char* field) {
    const auto found = record.find(field);
    return found != record.end() && found->is_number_unsigned() ? at_most(found->get<std::uint64_t>()) : Bytes{0};
  };
  if (!record.is_object() || !record.contains("used_bytes") || amount("limit_bytes") == Bytes{0}) return std::nullopt;
  return DeniedRequests{1, amount("used_bytes"), at_most(static_cast<std::uint64_t>(requested)), Bytes{0}};
}

}  // namespace

void DeniedRequests::add(const DeniedRequests& other) {
  known += other.known;
  impossible = std::max(impossible, other.impossible);
  if (other.need() > need()) held = other.held, requested = other.requested;
}

std::map<std::int64_t, DeniedRequests> read_denied_requests(Database& database, const std::string& workload,
                                                            TimeMs from, Bytes capacity) {
  // A denial names its run by a number that restarts with each boot, so the query takes the latest run with that number
  // that had begun before the denial.
  Statement rows(database,
                 "SELECT (SELECT id FROM runs WHERE number = CAST(substr(denial, 3) AS INTEGER) AND "
                 "started <= events.time AND runs.workload = events.workload AND runs.tenant = events.tenant "
                 "ORDER BY started DESC LIMIT 1), bytes, why FROM events "
                 "WHERE denial <> '' AND time >= ?2 AND (workload = ?1 OR tenant || '/' || workload = ?1)");
  rows.with(workload, from);
  std::map<std::int64_t, DeniedRequests> runs;
  while (rows.row()) {
    const auto run = rows.maybe_integer(0), requested = rows.maybe_integer(1);
    auto request = run && requested ? denied_request_of(rows.text(2), *requested) : std::nullopt;
    if (!request) continue;
    if (request->need() > capacity) request = DeniedRequests{1, Bytes{0}, Bytes{0}, request->need()};
    runs[*run].add(*request);
  }
  return runs;
}

std::string to_text(const DeniedRequests& denied) {
  return fmt::format("{} ({} on top of the {} it held)", format_size(denied.need()), format_size(denied.requested),
                     format_size(denied.held));
}

}  // namespace ration::history
