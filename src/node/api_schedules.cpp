// Schedules: shown to everybody, changed by operators.
#include "node/api.hpp"
#include "node/http/problem.hpp"

namespace ration::node {

using http::Request;
using nlohmann::json;

namespace {

json to_json(const ScheduleRow& row) {
  json entry{{"schedule", row.name.empty() ? json(nullptr) : json(row.name)},
             {"when", row.when},
             {"days", row.days},
             {"set", row.set},
             {"from", row.from},
             {"holds", row.holds}};
  if (row.name.empty()) entry["schedule_na"] = "those of the configuration have no name";
  if (!row.rests.empty()) entry["rests"] = row.rests;
  return entry;
}

/// E1521.
Result<ScheduleWish> wish_of(const Request& request) {
  const auto body = body_of(request);
  if (!body) return tl::unexpected(body.error());
  ScheduleWish wish;
  wish.name = request.captures.at("name");
  for (auto [key, field] : {std::pair{"when", &wish.when}, {"days", &wish.days}}) {
    const auto text = text_field(*body, key);
    if (!text) return tl::unexpected(text.error());
    *field = *text;
  }
  const json set = body->value("set", json::object());
  if (!set.is_object()) return fail("E1521", "'set' names tenants and their limits.", R"("set": {"nlp": "90%"})", 2);
  for (const auto& [tenant, limit] : set.items()) {
    if (!limit.is_string()) return fail("E1521", "a limit in 'set' is no text.", R"("set": {"nlp": "90%"})", 2);
    wish.set[tenant] = limit.get<std::string>();
  }
  return wish;
}

}  // namespace

json Api::schedules() {
  json rows = json::array();
  for (const ScheduleRow& row : host_.node().schedules()) rows.push_back(to_json(row));
  return rows;
}

void Api::install_schedules(http::Server& server) {
  server.route("GET", "/api/v1/schedules", [this](const Request&) { return answer("schedules", schedules()); });
  server.route("PUT", "/api/v1/schedules/{name}", [this](const Request& request) {
    auto wish = wish_of(request);
    if (!wish) return http::problem(wish.error());
    std::vector<history::Event> events;
    if (auto done = host_.node().set_schedule(std::move(*wish), caller_of(request), events); !done)
      return http::problem(done.error());
    host_.record(std::move(events));
    host_.look_now();
    return answer("schedules", schedules());
  });
  server.route("DELETE", "/api/v1/schedules/{name}", [this](const Request& request) {
    std::vector<history::Event> events;
    if (auto done = host_.node().remove_schedule(request.captures.at("name"), caller_of(request), events); !done)
      return http::problem(done.error());
    host_.record(std::move(events));
    host_.look_now();
    return answer("schedules", schedules());
  });
}

}  // namespace ration::node
