#include "history/periods.hpp"

#include <fmt/format.h>
#include <sodium/crypto_hash_sha256.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "history/charges.hpp"

namespace ration::history {
namespace {

// Returns one line for each run on each device, and one for each other kind on each device. Equal sums give equal text.
std::string canonical_lines(const std::string& name, const Charges& charges) {
  std::vector<std::string> lines;
  const auto enter = [&](const nlohmann::json& line) {
    lines.push_back(line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  };
  for (const ChargeLine& line : charges.lines) {
    const auto device = charges.devices.find(line.device);
    const std::string uuid = device == charges.devices.end() ? std::string() : device->second.uuid;
    if (line.kind != Kind::kGoverned) {
      enter({name, name_of(line.kind), uuid, byte_seconds(line.charged), line.peak, line.ms});
      continue;
    }
    const auto run = charges.runs.find(line.run);
    const RunFacts facts = run == charges.runs.end() ? RunFacts{} : run->second;
    enter({name, "governed", uuid, facts.tenant, facts.user, facts.workload, facts.labels, facts.number,
           rfc3339(facts.started), byte_seconds(line.used), byte_seconds(line.limited), byte_seconds(line.guaranteed),
           byte_seconds(line.held), line.peak, line.denials, line.ms});
  }
  for (const PinnedLine& line : charges.pinned) {
    const RunFacts* run = charges.run_of(line.run);
    const RunFacts facts = run == nullptr ? RunFacts{} : *run;
    enter({name, "pinned", facts.tenant, facts.user, facts.workload, facts.labels, facts.number, rfc3339(facts.started),
           byte_seconds(line.used), line.peak, line.denials, line.ms});
  }
  enter({name, "capacity", byte_seconds(charges.capacity)});
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const auto& line : lines) text += line + '\n';
  return text;
}

}  // namespace

Result<std::pair<TimeMs, TimeMs>> month_of(const std::string& name) {
  int year = 0, month = 0;
  const char *begin = name.data(), *end = begin + name.size();
  const bool shaped = name.size() == 7 && name[4] == '-' && std::from_chars(begin, begin + 4, year).ptr == begin + 4 &&
                      std::from_chars(begin + 5, end, month).ptr == end;
  if (!shaped || year < 1970 || month < 1 || month > 12)
    return fail("E1914", fmt::format("'{}' is not a month.", name), "Write it as 2026-01.", 2);
  return std::pair{month_start(year, month), month_start(year, month + 1)};
}

std::string month_name(TimeMs time) { return rfc3339(time).substr(0, 7); }

std::string sha256(const std::string& text) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  ::crypto_hash_sha256(digest.data(), reinterpret_cast<const unsigned char*>(text.data()), text.size());
  std::string hexadecimal;
  for (const unsigned char byte : digest) hexadecimal += fmt::format("{:02x}", byte);
  return hexadecimal;
}

std::optional<ClosedPeriod> read_period(Database& database, const std::string& name) {
  Statement asked(database, "SELECT name, closed, seal, lines FROM periods WHERE name = ?");
  if (!asked.with(name).row()) return std::nullopt;
  ClosedPeriod period{asked.text(0), asked.integer(1), asked.text(2), asked.text(3)};
  period.intact = sha256(period.lines) == period.seal;
  return period;
}

Result<ClosedPeriod> History::close_period(const std::string& name, TimeMs now) {
  RATION_TRY(const auto month, month_of(name));
  RATION_TRY(commit());
  if (now < month.second || committed_to_ < month.second) {
    return fail("E1914",
                fmt::format("{} cannot be closed yet: it ends at {} and is recorded up to {}.", name,
                            rfc3339(month.second), rfc3339(committed_to_)),
                "Close it after its end, once the daemon has recorded it whole.");
  }
  Database& database = file_.database();
  database.run("BEGIN IMMEDIATE");
  if (const auto before = read_period(database, name)) {
    database.run("ROLLBACK");
    return fail("E1915", fmt::format("{} was closed at {}.", name, rfc3339(before->closed)),
                "A closed month stays as it is: ration report --window 2026-01 shows it.");
  }
  const auto charges = collect_charges(database, {month.first, month.second}, Slice::kWhole, Basis::kUsed);
  if (!charges || !charges->consistent) {
    database.run("ROLLBACK");
    if (!charges) return tl::unexpected(charges.error());
    return fail("E1914", fmt::format("{} cannot be closed, because its hours do not add up.", name),
                "This is a fault of ration, or another program wrote to its file: please report it.");
  }
  ClosedPeriod period{name, now, {}, canonical_lines(name, *charges), true};
  period.seal = sha256(period.lines);
  Statement(database, "INSERT INTO periods VALUES(?, ?, ?, ?)")
      .with(period.name, period.closed, period.seal, period.lines)
      .done();
  database.run("COMMIT");
  if (auto good = database.outcome(); !good) {
    database.run("ROLLBACK");
    (void)database.outcome();
    return tl::unexpected(good.error());
  }
  return period;
}

}  // namespace ration::history
