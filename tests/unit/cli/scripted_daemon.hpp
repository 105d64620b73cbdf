// A daemon that says what a test tells it to, and a session about it.
#pragma once

#include <deque>
#include <map>

#include "../http/http_fixture.hpp"
#include "cli/session/node_client.hpp"
#include "http/problem.hpp"

namespace ration::cli {

using nlohmann::json;
using namespace literals;

class ScriptedDaemon : public http::HttpTest {
 protected:
  static http::Response answer(const json& data) { return {.body = json{{"data", data}}.dump()}; }

  /// `at`: by method and path. What is not among these gets `in_order`, one answer after the other; then E1801. What
  /// was asked is kept.
  void answer_with(std::map<std::string, http::Response> at, std::vector<http::Response> in_order = {}) {
    at_ = std::move(at);
    in_order_.assign(in_order.begin(), in_order.end());
    start([&](http::Server& routes) {
      for (const char* method : {"GET", "POST", "DELETE"})
        for (const char* path : {"/api/v1/{a}", "/api/v1/{a}/{b}", "/api/v1/{a}/{b}/{c}"})
          routes.route(method, path, [this](const http::Request& request) { return next(request); });
    });
    session_.socket = options.socket_path;
    auto found = NodeClient::find(session_);
    ASSERT_TRUE(found && *found);
    daemon_.emplace(std::move(**found));
  }

  Session session_;
  std::optional<NodeClient> daemon_;
  std::vector<std::string> asked_;
  std::vector<json> bodies_;

 private:
  http::Response next(const http::Request& request) {
    asked_.push_back(request.method + " " + request.path);
    bodies_.push_back(request.body.empty() ? json() : json::parse(request.body));
    if (const auto known = at_.find(asked_.back()); known != at_.end()) return known->second;
    if (in_order_.empty()) return http::problem({"E1801", "nothing of that name", "ration ps", 3});
    http::Response answer = in_order_.front();
    in_order_.pop_front();
    return answer;
  }

  std::map<std::string, http::Response> at_;
  std::deque<http::Response> in_order_;
};

}  // namespace ration::cli
