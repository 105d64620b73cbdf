#include "node/http/api.hpp"

#include "book/store.hpp"
#include "node/http/audience.hpp"
#include "node/promises/claims_routes.hpp"
#include "node/queue/lease_json.hpp"
#include "node/queue/leases_routes.hpp"
#include "node/tenants/schedules_routes.hpp"

namespace ration::node {

using nlohmann::json;

namespace {

http::ServerOptions gated(http::ServerOptions options) {
  options.gate = withheld;
  return options;
}

}  // namespace

void Api::answer_later(const http::Responder& responder, std::function<Result<http::Response>(history::Reader&)> make) {
  const auto job = [this, responder, path = host_.recorder().history().path(),
                    problem = host_.recorder().status().problem, make = std::move(make)] {
    auto reader = history::Reader::open(path);
    auto response = reader ? make(*reader) : tl::unexpected(reader.error());
    // An event may be unknown because it could not be recorded.
    if (!response && response.error().id == "E1917" && !problem.empty())
      response.error().what = response.error().what + " " + problem;
    if (!response && response.error().id == "E1919") host_.recorder().report_damage();
    if (!response) return responder.fail(response.error());
    responder.respond(std::move(*response));
  };
  if (!worker_.post(job))
    responder.fail({"E1517", "too many requests for past data are already waiting.", "Try again in a few seconds.", 1},
                   503);
}

void Api::ask_history(const http::Responder& responder, const std::string& schema,
                      std::function<Result<json>(history::Reader&)> question) {
  answer_later(responder, [this, schema, question = std::move(question)](history::Reader& reader) {
    return question(reader).map([&](const json& data) { return answer(schema, data); });
  });
}

http::Response Api::answer(const std::string& schema, const json& data, int status) const {
  return host_.answer(schema, data, status);
}

Api::Api(ApiHost& host, http::EventLoop& loop, http::EventStream& stream, http::ServerOptions endpoints)
    : host_(host),
      stream_(stream),
      server_(loop, gated(std::move(endpoints))),
      routes_(host, [this](const Viewer& viewer) {
        return json{{"queue", waiting_json(host_.leases(), viewer)}, {"last_event", stream_.newest_id()}};
      }) {
  install_subjects();
  install_now();
  install_session();
  install_changes();
  install_past();
  install_reports();
  install_recordings();
  install_pages();
  install_documentation(host_.documentation());
}

void Api::install_subjects() {
  const AddRoute add = [this](std::string method, std::string_view pattern, http::Handler handler) {
    server_.route(std::move(method), pattern, std::move(handler));
  };
  Engine& engine = host_.engine();
  const Moment& moment = engine.moment();
  Subjects& subjects = engine.subjects();
  routes_.install(add);
  add_schedule_routes(add, host_, moment, subjects.schedules);
  add_lease_routes(add, host_, moment, host_.leases(), subjects.promises, subjects.schedules);
  add_claim_routes(add, host_, {moment, subjects.claims, subjects.promises, engine.options().runtime_folder},
                   subjects.allowed, host_.device_publisher());
}

void Api::publish_snapshot() {
  stream_.publish("snapshot", "snapshot", [this](const http::Peer& peer) { return routes_.snapshot(viewer_of(peer)); });
}

std::optional<Message> Api::keep_endpoints() {
  const std::string& own = host_.engine().options().runtime_folder;
  FolderClaims& folder_claims = host_.engine().folder_claims();
  Result<void> good;
  if (!folder_claims.is_claimed()) {
    good = book::Store::make(own);
    if (good) good = folder_claims.claim(own);
  }
  if (good) good = server_.keep_sockets();
  const Message problem = good ? Message() : good.error().what;
  const bool is_news = std::exchange(unreachable_, problem) != problem;
  return is_news && !problem.empty() ? std::optional(problem) : std::nullopt;
}

}  // namespace ration::node
