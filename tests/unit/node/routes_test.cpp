// The description of the HTTP interface names the routes that the daemon has, and no other.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "http/asset.hpp"
#include "node/http/api.hpp"
#include "node/http/openapi.hpp"
#include "node/http/web_assets.hpp"

namespace ration::node {
namespace {

/// Routes are installed over a node without books or devices.
class NoDaemon final : public ApiHost {
 public:
  Engine& engine() override { return engine_; }
  Leases& leases() override { return leases_; }
  DevicePublisher& device_publisher() override { return publisher_; }
  Recorder& recorder() override { throw std::logic_error("asked while the routes are installed"); }
  const CommandOptions& command_options() override { throw std::logic_error("asked while the routes are installed"); }
  std::string documentation() override { return ""; }
  [[nodiscard]] const Moment& moment() const override { return engine_.moment(); }
  Subjects& subjects() override { return engine_.subjects(); }
  [[nodiscard]] const char* source() const override { return "sim"; }
  void record(Events) override {}
  void tick_now() override {}
  void tick_if_stale() override {}
  void tick_soon() override {}
  Result<std::vector<std::string>> reload() override { return std::vector<std::string>{}; }
  [[nodiscard]] const LastReload& last_reload() override { return last_reload_; }
  Result<history::ClosedPeriod> close_period(const std::string&) override { return history::ClosedPeriod{}; }

 private:
  Engine engine_{NodeOptions{}, config::Configuration{}};
  Leases leases_;
  LastReload last_reload_;
  DevicePublisher publisher_{engine_.subjects().claims, {}};
};

using Route = std::pair<std::string, std::string>;

std::set<Route> installed() {
  http::EventLoop loop;
  http::EventStream stream(loop, {});
  NoDaemon host;
  Api api(host, loop, stream, {});
  std::set<std::string> files;
  for (const Asset& asset : assets())
    if (asset.path != "/index.html") files.emplace(asset.path);
  std::set<Route> routes;
  // The names of the dashboard's files change with their content: they stand as one in the description.
  for (const auto& [method, pattern] : api.server().routes())
    routes.emplace(method, files.count(pattern) != 0 ? "/{asset}"
                           : pattern == "/docs/{path...}"
                               ? "/docs/{path}"  // OpenAPI has no word for the rest of a path
                               : pattern);
  return routes;
}

std::set<Route> described() {
  const http::Asset asset = http::make_asset("application/json", openapi_gzip(), true);
  const auto document = nlohmann::json::parse(http::serve(asset, {}).body);
  std::set<Route> routes;
  for (const auto& [path, operations] : document.at("paths").items()) {
    for (const auto& [method, operation] : operations.items()) {
      std::string upper = method;
      for (char& letter : upper) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
      routes.emplace(upper, path);
    }
  }
  return routes;
}

TEST(Routes, TheDescriptionNamesThoseThatAreThereAndNoOther) {
  std::set<Route> there = installed(), told = described();
  EXPECT_GT(there.size(), 30U);
  // Without Node.js the dashboard is one page, without files.
  if (there.count({"GET", "/{asset}"}) == 0) told.erase({"GET", "/{asset}"});
  EXPECT_EQ(there, told);
}

}  // namespace
}  // namespace ration::node
