#include "node/http/event_view.hpp"

#include "base/message_json.hpp"
#include "base/say.hpp"
#include "machine/user_names.hpp"
#include "node/events/event.hpp"

namespace ration::node {

using nlohmann::json;

bool may_see_details(const history::Event& event, const Viewer& viewer) {
  return viewer.is_operator || (viewer.user && event.user == machine::user_name(*viewer.user));
}

json event_json(const history::Event& event, bool with_details) {
  const auto text = [](const std::string& value) { return value.empty() ? json(nullptr) : json(value); };
  const auto number = [](const auto& value) { return value ? json(*value) : json(nullptr); };
  json row{{"id", event.id},
           {"time", history::rfc3339(event.time)},
           {"type", event.type},
           {"workload", text(event.workload)},
           {"tenant", text(event.tenant)},
           {"user", text(event.user)},
           {"gpu", number(event.gpu)},
           {"bytes", number(event.bytes)},
           {"denial", text(event.denial)},
           {"by", text(event.by)},
           {"text", event.text},
           {"message_id", nullptr},
           {"arguments", nullptr},
           {"count", event.count},
           {"first_time", history::rfc3339(event.first_time == 0 ? event.time : event.first_time)},
           {"old", text(event.old_value)},
           {"new", text(event.new_value)},
           {"fix", text(event.fix)}};
  if (const json message = json::parse(event.message, nullptr, false); message.is_object()) row.update(message);
  row["pid"] = with_details ? number(event.pid) : json(nullptr);
  if (!with_details) {
    put_message(row, "pid_na", kNotYours);
    // Hides the sentence of an ungoverned process, which contains its command line.
    if (event_type(event.type) == EventType::kUngoverned) put_message(row, "text", say<"ungoverned.hidden">());
    return row;
  }
  if (event.denial.empty() || event.why.empty()) return row;
  json why = json::parse(event.why, nullptr, false);
  if (why.is_object() && why.value("device_free_bytes", json(0)).is_null())
    put_message(why, "device_free_bytes_na", fixed<"unknown.driver_was_silent">());
  if (why.is_object()) why.erase("operators_fix");
  row["why"] = std::move(why);
  return row;
}

void address_fix(json& row, const history::Event& event, const Viewer& viewer) {
  if (!viewer.is_operator) return;
  if (std::string own = facts_of(event).operators_fix; !own.empty()) row["fix"] = std::move(own);
}

json denial_json(const history::Event& event, const Viewer& viewer, const std::string& fix_now) {
  json row = event_json(event, true);
  if (row.contains("why") && row["why"].is_object()) row.update(row["why"]);
  if (event.id == 0) {
    row["id"] = nullptr;
    put_message(row, "id_na", fixed<"unknown.not_recorded">());
  }
  row["requested_bytes"] = row["bytes"];
  if (const auto free = row.find("device_free_bytes"); free == row.end() || free->is_null()) {
    row["device_free_bytes"] = nullptr;
    put_message(row, "device_free_bytes_na", fixed<"unknown.driver_was_silent">());
  }
  address_fix(row, event, viewer);
  if (!fix_now.empty()) row["fix"] = fix_now;
  row.erase("why");
  return row;
}

}  // namespace ration::node
