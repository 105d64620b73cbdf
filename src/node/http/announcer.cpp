#include "node/http/announcer.hpp"

#include "base/command_json.hpp"
#include "machine/user_names.hpp"
#include "node/events/event.hpp"
#include "node/request/request.hpp"

namespace ration::node {

using nlohmann::json;

json Announcer::json_of(const history::Event& event, bool with_details) const {
  json row = event_json(event, with_details);
  add_command_options(row, commands_);
  return row;
}

void Announcer::send(const std::vector<history::Event>& events) {
  for (const history::Event& event : events) {
    if (event.id == 0) continue;
    stream_.publish(
        "events", "event",
        [this, event](const http::Peer& peer) -> std::string {
          const Viewer viewer = viewer_of(peer);
          if (viewer.totals_only) return {};
          return json_of(event, may_see_details(event, viewer)).dump(-1, ' ', false, json::error_handler_t::replace);
        },
        static_cast<std::uint64_t>(event.id));
  }
}

void Announcer::send_alerts(const std::string& url, const std::vector<history::Event>& events) {
  if (url.empty()) return;
  for (const history::Event& event : events) {
    if (event_type(event.type) != EventType::kAlert) continue;
    json body = json_of(event, true);
    if (event.id == 0) body["id"] = nullptr;  // the event is not stored yet
    body["host"] = machine::host_name();
    webhook_.send(url, body.dump(-1, ' ', false, json::error_handler_t::replace));
  }
}

}  // namespace ration::node
