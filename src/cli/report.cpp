// `ration report`: accounts, one run looked back at, closing a month.
#include <fmt/format.h>

#include "cli/node_client.hpp"
#include "cli/verbs.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

Result<int> last_run(NodeClient& daemon, const Session& session, const std::string& workload) {
  const auto run = daemon.get("/api/v1/runs/last?workload=" + percent_encoded(workload));
  if (!run) return tl::unexpected(run.error());
  if (session.output == "json")
    session.print_json("last_run", *run, {{"source", "daemon"}});
  else
    fmt::print("{}", run->at("text").get<std::string>());
  return 0;
}

std::string gib_hours(const json& row, const char* field) {
  constexpr double kGibHour = 1073741824.0 * 3600;
  const auto found = row.find(field);
  if (found == row.end() || !found->is_string()) return "";
  return fmt::format("{:.3f}", std::strtod(found->get<std::string>().c_str(), nullptr) / kGibHour);
}

void print_report(const Session& session, const json& report) {
  Table table({{"NAME", "name"},
               {"GiB·h CHARGED", "charged", true},
               {"USED", "used", true},
               {"LIMIT", "limit", true},
               {"PEAK", "peak_bytes", true},
               {"DENIED", "denials", true},
               {"COST", "cost", true}});
  for (const json& row : report.at("rows")) {
    const bool governed = row.at("kind") == "governed";
    table.add(
        {governed ? row.at("name").get<std::string>() : fmt::format("({})", row.at("kind").get<std::string>()),
         gib_hours(row, "charged_byte_seconds"), governed ? gib_hours(row, "used_byte_seconds") : "",
         governed ? gib_hours(row, "limit_byte_seconds") : "",
         governed && row.at("peak_bytes").is_number() ? session.size(Bytes{row["peak_bytes"].get<std::uint64_t>()})
                                                      : "",
         governed ? std::to_string(row.value("denials", 0)) : "",
         row.contains("cost") && row["cost"].is_number() ? fmt::format("{:.2f}", row["cost"].get<double>()) : ""});
  }
  table.print(session.format());
  fmt::print(
      "{} to {} · basis {} · sum {} GiB·h {} capacity × time · {} gaps{}\n", report.at("from").get<std::string>(),
      report.at("to").get<std::string>(), report.at("basis").get<std::string>(), gib_hours(report, "sum_byte_seconds"),
      report.at("adds_up").get<bool>() ? "=" : "IS NOT", report.at("gaps").size(),
      report.at("seal").is_string() ? fmt::format(" · closed, seal {}", report["seal"].get<std::string>().substr(0, 12))
                                    : "");
}

}  // namespace

Result<int> report(const Session& session, const ReportOptions& options) {
  auto daemon = NodeClient::require(session);
  if (!daemon) return tl::unexpected(daemon.error());
  if (options.action == "close") {
    if (options.period.empty()) return fail("E1914", "which month?", "ration report close 2026-01", 2);
    const auto closed =
        daemon->post(fmt::format("/api/v1/reports/periods/{}:close", percent_encoded(options.period)), json::object());
    if (!closed) return tl::unexpected(closed.error());
    if (session.output == "json")
      session.print_json("period", *closed, {{"source", "daemon"}});
    else
      fmt::print("{} is closed. seal {}\n", closed->at("period").get<std::string>(),
                 closed->at("seal").get<std::string>());
    return 0;
  }
  if (options.last) return last_run(*daemon, session, options.workload);
  std::string path = "/api/v1/reports/usage?";
  for (const auto& [name, value] : {std::pair{"by", options.by},
                                    {"window", options.window},
                                    {"basis", options.basis},
                                    {"price", options.price},
                                    {"share_idle", options.share_idle}})
    if (!value.empty()) path += fmt::format("{}={}&", name, percent_encoded(value));
  if (session.output != "text" && session.output != "json") {
    const auto text = daemon->text(path + "format=" + session.output);
    if (!text) return tl::unexpected(text.error());
    fmt::print("{}", *text);
    return 0;
  }
  const auto data = daemon->get(path);
  if (!data) return tl::unexpected(data.error());
  if (session.output == "json")
    session.print_json("report", *data, {{"source", "daemon"}});
  else
    print_report(session, *data);
  return 0;
}

}  // namespace ration::cli
