// Serves the paths of schedules, which all users may read and operators change.
#include "node/tenants/schedules_routes.hpp"

#include "base/message_json.hpp"
#include "base/say.hpp"
#include "http/problem.hpp"

namespace ration::node {

using http::Request;
using http::Response;
using nlohmann::json;

namespace {

json schedule_json(const ScheduleRow& row) {
  json entry{{"schedule", row.name.empty() ? json(nullptr) : json(row.name)},
             {"when", row.when},
             {"days", row.days},
             {"set", row.set},
             {"from", row.from},
             {"holds", row.in_force}};
  if (row.name.empty()) put_message(entry, "schedule_na", fixed<"unknown.unnamed_schedule">());
  if (!row.inactive.empty()) entry["rests"] = row.inactive;
  return entry;
}

/// Reads a schedule from a request. Fails with E1521.
Result<ScheduleRequest> schedule_from(const Request& request) {
  RATION_TRY(const auto body, body_of(request));
  ScheduleRequest schedule;
  schedule.name = request.captures.at("name");
  for (auto [key, field] : {std::pair{"when", &schedule.when}, {"days", &schedule.days}}) {
    RATION_TRY(const auto text, text_field(body, key));
    *field = text;
  }
  const json set = body.value("set", json::object());
  if (!set.is_object())
    return fail("E1521", "'set' is not an object of tenants and their limits.", R"("set": {"nlp": "90%"})", 2);
  for (const auto& [tenant, limit] : set.items()) {
    if (!limit.is_string()) return fail("E1521", "a limit in 'set' is not a string.", R"("set": {"nlp": "90%"})", 2);
    schedule.set[tenant] = limit.get<std::string>();
  }
  return schedule;
}

json schedule_json(const std::vector<ScheduleRow>& rows) {
  json list = json::array();
  for (const ScheduleRow& row : rows) list.push_back(schedule_json(row));
  return list;
}

}  // namespace

void add_schedule_routes(const AddRoute& add, RouteHost& host, const Moment& moment, Schedules& schedules) {
  const auto answer_with = [&host](const std::vector<ScheduleRow>& rows) {
    return host.answer("schedules", schedule_json(rows));
  };
  const auto answer_changed = [&host, &moment, &schedules, answer_with](Events events) {
    host.record(std::move(events));
    host.tick_now();
    return answer_with(schedule_rows(moment, schedules));
  };
  add("GET", "/api/v1/schedules",
      [&moment, &schedules, answer_with](const Request&) { return answer_with(schedule_rows(moment, schedules)); });
  add("PUT", "/api/v1/schedules/{name}",
      [&moment, &schedules, answer_with, answer_changed](const Request& request) -> Result<Response> {
        RATION_TRY(auto schedule, schedule_from(request));
        Events events;
        const bool dry_run = is_dry_run(request);
        RATION_TRY(const auto rows,
                   set_schedule(moment, schedules, std::move(schedule), caller_of(request), dry_run, events));
        return dry_run ? answer_with(rows) : answer_changed(std::move(events));
      });
  add("DELETE", "/api/v1/schedules/{name}",
      [&moment, &schedules, answer_with, answer_changed](const Request& request) -> Result<Response> {
        Events events;
        const bool dry_run = is_dry_run(request);
        RATION_TRY(const auto rows, remove_schedule(moment, schedules, request.captures.at("name"), caller_of(request),
                                                    dry_run, events));
        return dry_run ? answer_with(rows) : answer_changed(std::move(events));
      });
}

}  // namespace ration::node
