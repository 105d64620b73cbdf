// `ration report`: prints the accounts of a time or a summary of one run, or closes a month.
#include <fmt/format.h>

#include <algorithm>

#include "base/labels.hpp"
#include "cli/session/node_client.hpp"
#include "cli/verbs/verbs.hpp"
#include "history/export/cells.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

Result<int> last_run(NodeClient& daemon, const Session& session, const std::string& workload) {
  const std::string path = "/api/v1/runs/last?workload=" + percent_encoded(workload);
  if (session.output == "md") {
    RATION_TRY(const auto text, daemon.text(path + "&format=md"));
    fmt::print("{}", text);
    return 0;
  }
  if (session.output != "text" && session.output != "json")
    return fail("E1916", fmt::format("the report of one run has no format '{}'.", session.output),
                "ration report --last -o text, json or md; a report of a --window also has csv, focus and opencost", 2);
  RATION_TRY(const auto run, daemon.get(path));
  if (session.output == "json")
    session.print_json("last_run", run, {{"source", "daemon"}});
  else
    fmt::print("{}", session.hint(run.at("text").get<std::string>()));
  return 0;
}

std::string gib_hours(const json& row, const char* field) {
  constexpr double kGibHour = 1073741824.0 * 3600;
  const auto found = row.find(field);
  if (found == row.end() || !found->is_string()) return "";
  return history::figures(std::strtod(found->get<std::string>().c_str(), nullptr) / kGibHour);
}

std::string name_of(const json& row) {
  if (row.at("kind") == "governed") return row.at("name").get<std::string>();
  const std::string device = row.value("device", "");
  return fmt::format("({}){}{}", row.at("kind").get<std::string>(), device.empty() ? "" : " ", device);
}

std::string cost_of(const json& row) {
  const auto cost = row.find("cost");
  if (cost != row.end() && cost->is_number()) return fmt::format("{:.2f}", cost->get<double>());
  return fmt::format("n/a ({})", row.value("cost_na", "no price"));
}

/// Returns true if a row has a guarantee or is charged for one.
bool has_guarantee(const json& report) {
  if (report.at("basis").get<std::string>().find("guarantee") != std::string::npos) return true;
  for (const json& row : report.at("rows")) {
    const auto found = row.find("guarantee_byte_seconds");
    if (found != row.end() && found->is_string() && *found != "0") return true;
  }
  return false;
}

/// Returns true if a row has pinned host memory.
bool has_pinned(const json& report) {
  return std::ranges::any_of(report.at("rows"), [](const json& row) {
    const auto peak = row.find("host_peak_bytes");
    return peak != row.end() && peak->is_number() && *peak > 0;
  });
}

/// Returns two cells about the row's pinned host memory, GiB·h and peak, or `n/a` with the reason if that memory was
/// not counted.
std::vector<std::string> pinned_cells(const Session& session, const json& row) {
  if (row.at("kind") != "governed") return {"", ""};
  if (const auto peak = row.find("host_peak_bytes"); peak != row.end() && peak->is_number())
    return {gib_hours(row, "host_used_byte_seconds"), session.size(Bytes{peak->get<std::uint64_t>()})};
  const std::string unknown = fmt::format("n/a ({})", row.value("host_peak_bytes_na", "not counted"));
  return {unknown, unknown};
}

/// Returns true if the configuration or --price gives a price.
bool is_priced(const json& report) { return report.contains("unpriced_rows"); }

void print_rows(const Session& session, const json& report) {
  const bool guarantee = has_guarantee(report), pinned = has_pinned(report), priced = is_priced(report);
  std::vector<Table::Column> columns{
      {"NAME", "name"}, {"GiB·h CHARGED", "charged", true}, {"USED", "used", true}, {"LIMIT", "limit", true}};
  if (guarantee) columns.push_back({"GUARANTEE", "guarantee", true});
  columns.insert(columns.end(), {{"PEAK", "peak_bytes", true}, {"DENIED", "denials", true}});
  if (pinned) columns.insert(columns.end(), {{"PINNED", "host_used", true}, {"PINNED PEAK", "host_peak_bytes", true}});
  if (priced) columns.push_back({"COST " + report.at("currency").get<std::string>(), "cost", true});
  Table table(std::move(columns));
  for (const json& row : report.at("rows")) {
    const bool governed = row.at("kind") == "governed";
    const auto of_governed = [&](const char* field) { return governed ? gib_hours(row, field) : std::string(); };
    std::vector<std::string> cells{name_of(row), gib_hours(row, "charged_byte_seconds"),
                                   of_governed("used_byte_seconds"), of_governed("limit_byte_seconds")};
    if (guarantee) cells.push_back(of_governed("guarantee_byte_seconds"));
    cells.push_back(governed && row.at("peak_bytes").is_number()
                        ? session.size(Bytes{row["peak_bytes"].get<std::uint64_t>()})
                        : "");
    cells.push_back(governed ? std::to_string(row.value("denials", 0)) : "");
    if (pinned)
      for (std::string& cell : pinned_cells(session, row)) cells.push_back(std::move(cell));
    if (priced) cells.push_back(cost_of(row));
    table.add(std::move(cells));
  }
  table.print(session.format());
}

std::string cost_of_all(const json& report) {
  if (!is_priced(report)) return "";
  const auto lacking = report.at("unpriced_rows").get<std::size_t>();
  if (!report.contains("cost")) return " · cost n/a (no price)";
  return fmt::format(" · cost {:.2f} {}{}", report.at("cost").get<double>(), report.at("currency").get<std::string>(),
                     lacking == 0 ? "" : fmt::format(" + {} row{} without a price", lacking, lacking == 1 ? "" : "s"));
}

void print_report(const Session& session, const json& report) {
  print_rows(session, report);
  if (report.at("recorded_from").is_string())
    fmt::print("sum {} GiB·h {} {}{}\n", gib_hours(report, "sum_byte_seconds"),
               report.at("adds_up").get<bool>() ? "=" : "IS NOT", report.at("sum_text").get<std::string>(),
               cost_of_all(report));
  for (const json& note : report.at("notes")) fmt::print("{}\n", note.get<std::string>());
}

std::string mib_seconds(const json& row, const char* field) {
  const auto found = row.find(field);
  if (found == row.end() || !found->is_string()) return "n/a";
  return fmt::format("{:.0f}", std::strtod(found->get<std::string>().c_str(), nullptr) / 1048576.0);
}

/// Prints the part of a Slurm job on this node; a job on several nodes has a part on each.
Result<int> slurm_job(NodeClient& daemon, const Session& session, const ReportOptions& options) {
  if (session.output != "text" && session.output != "json")
    return fail("E1916", fmt::format("the report of one job has no format '{}'.", session.output), "-o text or json",
                2);
  RATION_TRY(const auto data,
             daemon.get(fmt::format("/api/v1/reports/usage?by=label:{}&basis=limit&window={}", kSlurmJobLabel,
                                    percent_encoded(options.window.empty() ? "365d" : options.window))));
  const json& rows = data.at("rows");
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const json& each) {
    return each.at("kind") == "governed" && each.at("name") == options.slurm_job;
  });
  if (row == rows.end())
    return fail("E1723", fmt::format("this node has no record of job {}.", options.slurm_job),
                fmt::format("sacct -j {} -o nodelist   says where it ran", options.slurm_job), 3);
  if (session.output == "json") {
    session.print_json("slurm_job", *row, {{"source", "daemon"}});
    return 0;
  }
  Table table({{"JOB", "name"},
               {"MiB·s GRANTED", "limit_mib_seconds", true},
               {"USED", "used_mib_seconds", true},
               {"OF IT", "efficiency", true},
               {"PEAK", "peak_bytes", true},
               {"DENIED", "denials", true}});
  const json& efficiency = row->at("efficiency");
  table.add({options.slurm_job, mib_seconds(*row, "limit_byte_seconds"), mib_seconds(*row, "used_byte_seconds"),
             efficiency.is_number() ? fmt::format("{:.0f} %", efficiency.get<double>() * 100) : "",
             row->at("peak_bytes").is_number() ? session.size(Bytes{row->at("peak_bytes").get<std::uint64_t>()}) : "",
             std::to_string(row->value("denials", 0))});
  table.print(session.format());
  return 0;
}

/// Prints the rows that `close` would seal, or returns the daemon's error about the month.
Result<int> would_close(NodeClient& daemon, const Session& session, const std::string& period) {
  RATION_TRY(const auto sums, daemon.get("/api/v1/reports/usage?window=" + percent_encoded(period)));
  if (session.output == "json") {
    session.print_json("report", sums, {{"source", "daemon"}});
    return 0;
  }
  fmt::print("would close {}; what would be sealed:\n", period);
  print_report(session, sums);
  return 0;
}

}  // namespace

Result<int> report(const Session& session, const ReportOptions& options) {
  RATION_TRY(auto daemon, NodeClient::require(session));
  if (options.action == "close") {
    if (options.period.empty()) return fail("E1914", "close needs a month.", "ration report close 2026-01", 2);
    if (session.dry_run) return would_close(daemon, session, options.period);
    const auto closed =
        daemon.post(fmt::format("/api/v1/reports/periods/{}:close", percent_encoded(options.period)), json::object());
    if (!closed) return tl::unexpected(closed.error());
    if (session.output == "json")
      session.print_json("period", *closed, {{"source", "daemon"}});
    else
      fmt::print("{} is closed. seal {}\n", closed->at("period").get<std::string>(),
                 closed->at("seal").get<std::string>());
    return 0;
  }
  if (!options.slurm_job.empty()) return slurm_job(daemon, session, options);
  if (options.last) return last_run(daemon, session, options.workload);
  std::string path = "/api/v1/reports/usage?";
  for (const auto& [name, value] : {std::pair{"by", options.by},
                                    {"window", options.window},
                                    {"basis", options.basis},
                                    {"price", options.price},
                                    {"share_idle", options.share_idle}})
    if (!value.empty()) path += fmt::format("{}={}&", name, percent_encoded(value));
  if (session.output != "text" && session.output != "json") {
    RATION_TRY(const auto text, daemon.text(path + "format=" + session.output));
    fmt::print("{}", text);
    return 0;
  }
  RATION_TRY(const auto data, daemon.get(path));
  if (session.output == "json")
    session.print_json("report", data, {{"source", "daemon"}});
  else
    print_report(session, data);
  return 0;
}

}  // namespace ration::cli
