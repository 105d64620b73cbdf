// `ration set --schedule`: sets limits of tenants that change with the hour.
#include <fmt/format.h>

#include "base/strings.hpp"
#include "cli/session/node_client.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

struct Typed {
  std::string name;
  json request;  // the schedule, or null to end it
};

tl::unexpected<Error> unreadable(const std::string& text) {
  return fail("E1601", fmt::format("'{}' is not a schedule.", text),
              "ration set --schedule 'night=22:00-07:00:train=90%,serve=10%', 'NAME=mon-fri 09:00-17:00:…', 'NAME=off'",
              2);
}

/// Reads `NAME=[DAYS ]FROM-TO:TENANT=SIZE,…` or `NAME=off`. The daemon checks the parts.
Result<Typed> parse(const std::string& text) {
  const auto named = split_once(text, '=');
  if (!named || named->first.empty()) return unreadable(text);
  Typed typed{std::string(named->first), nullptr};
  std::string rest(named->second);
  if (rest == "off") return typed;
  std::string days;
  if (const std::size_t space = rest.find(' '); space != std::string::npos) {
    days = rest.substr(0, space);
    rest.erase(0, space + 1);
  }
  // FROM and TO contain a colon each.
  std::size_t colon = std::string::npos;
  for (int each = 0; each < 3; ++each) {
    colon = rest.find(':', colon == std::string::npos ? 0 : colon + 1);
    if (colon == std::string::npos) return unreadable(text);
  }
  json set = json::object();
  for (const std::string_view part : ration::split(std::string_view(rest).substr(colon + 1), ',')) {
    const auto limit = split_once(part, '=');
    if (!limit || limit->first.empty() || limit->second.empty()) return unreadable(text);
    if (!set.emplace(limit->first, limit->second).second) return unreadable(text);
  }
  typed.request = {{"when", rest.substr(0, colon)}, {"days", days}, {"set", std::move(set)}};
  return typed;
}

void print_schedules(const Session& session, const json& rows) {
  if (rows.empty()) {
    fmt::print("there are no schedules.  {}\n", session.hint("ration set --schedule 'night=22:00-07:00:TENANT=90%'"));
    return;
  }
  Table table({{"SCHEDULE", "schedule"},
               {"DAYS", "days"},
               {"WHEN", "when"},
               {"LIMITS", "set"},
               {"NOW", "holds"},
               {"FROM", "from"}});
  for (const json& row : rows) {
    std::string limits;
    for (const auto& [tenant, limit] : row.at("set").items())
      limits += fmt::format("{}{}={}", limits.empty() ? "" : ",", tenant, limit.get<std::string>());
    const std::string rests = row.value("rests", "");
    table.add({row.at("schedule").is_string() ? row["schedule"].get<std::string>() : "-", row.at("days"),
               row.at("when"), limits,
               !rests.empty()                ? "rests: " + rests
               : row.at("holds").get<bool>() ? "holds"
                                             : "-",
               row.at("from")});
  }
  table.print(session.format());
}

}  // namespace

Result<int> schedule(const Session& session, const std::string& text) {
  Typed typed;
  if (!text.empty()) {
    RATION_TRY(auto read, parse(text));
    typed = std::move(read);
  }
  RATION_TRY(auto daemon, NodeClient::require(session));
  const std::string all = "/api/v1/schedules", one = all + "/" + percent_encoded(typed.name);
  const std::string path = session.dry_run ? one + "?dry_run=1" : one;
  RATION_TRY(const auto rows, text.empty()              ? daemon.get(all)
                              : typed.request.is_null() ? daemon.remove(path)
                                                        : daemon.put(path, typed.request));
  if (session.format() == Format::kJson)
    session.print_json("schedules", rows, {{"source", "daemon"}});
  else
    print_schedules(session, rows);
  return 0;
}

}  // namespace ration::cli
