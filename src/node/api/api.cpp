#include "node/api/api.hpp"

namespace ration::node {

using nlohmann::json;

void Api::ask_history(const http::Responder& responder, const std::string& schema,
                      std::function<Result<json>(history::Reader&)> question) {
  const auto job = [this, responder, schema, path = host_.database(), question = std::move(question)] {
    auto reader = history::Reader::open(path);
    auto data = reader ? question(*reader) : tl::unexpected(reader.error());
    if (!data && data.error().id == "E1919") host_.report_damage();
    if (!data) return responder.fail(data.error());
    responder.respond(answer(schema, std::move(*data)));
  };
  if (!host_.worker().post(job))
    responder.fail({"E1517", "too many questions about the past wait already.", "Try again in a few seconds.", 1}, 503);
}

http::Response Api::answer(const std::string& schema, const json& data, int status) const {
  return node::answer(host_.source(), schema, data, status);
}

void Api::install(http::Server& server) {
  routes_.install([&server](std::string method, std::string_view pattern, http::Handler handler) {
    server.route(std::move(method), pattern, std::move(handler));
  });
  install_now(server);
  install_changes(server);
  install_schedules(server);
  install_leases(server);
  install_past(server);
  install_reports(server);
  install_plan(server);
  install_pages(server);
}

}  // namespace ration::node
