// `ration ps`: prints the devices, the workloads and the queue, once or at an interval.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/command.hpp"
#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "cli/session/node_client.hpp"
#include "cli/session/other_nodes.hpp"
#include "cli/session/other_versions.hpp"
#include "cli/start/admission.hpp"
#include "cli/text/fields.hpp"
#include "cli/verbs/ps_tenants.hpp"
#include "cli/verbs/verbs.hpp"
#include "node/books/machine_daemon.hpp"
#include "node/snapshot/explain.hpp"
#include "rows/order.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

Bytes bytes_of(const json& row, const char* field) { return known_bytes(row, field).value_or(Bytes{0}); }

bool is_full(const json& row) {
  const Bytes limit = bytes_of(row, "limit_bytes"), used = bytes_of(row, "used_bytes");
  return limit - std::min(limit, used) < kGranule;
}

bool governed(const json& row) { return row.at("governed") == true; }

/// Returns the number of a MIG instance as --gpu takes it, such as `0.1`; empty for a whole GPU.
std::string mig_label(const json& device) {
  const auto mig = device.find("mig");
  if (mig == device.end()) return {};
  return machine::MigInstance{mig->at("gpu"), "", mig->at("instance"), ""}.label();
}

constexpr std::size_t kMaxHolders = 8;  // a line of a terminal has room for so many

std::string device_line(const Session& session, const json& device, std::vector<const json*> holders) {
  std::string line = fmt::format("[{}] {}", device.at("gpu").get<int>(), device.at("name").get<std::string>());
  if (const std::string instance = mig_label(device); !instance.empty()) line += fmt::format(" ({})", instance);
  if (device.at("temperature_celsius").is_number())
    line += fmt::format("  {}°C", device["temperature_celsius"].get<int>());
  if (device.at("utilisation_percent").is_number())
    line += fmt::format("  {}%", device["utilisation_percent"].get<int>());
  line +=
      fmt::format("  {} of {} used", session.size(known_bytes(device, "used_bytes"), "the driver does not report it"),
                  session.size(bytes_of(device, "total_bytes")));
  std::string rest;
  if (const Bytes bytes = bytes_of(device, "ungoverned_bytes"); bytes > Bytes{0})
    rest = fmt::format("  ungoverned {}", session.size(bytes));
  const auto with = [&](std::size_t count) {  // the largest holders; the table below names all of them
    std::string named;
    for (std::size_t i = 0; i < count; ++i)
      named += fmt::format("  {} {}{}", holders[i]->at("workload").get<std::string>(),
                           session.size(bytes_of(*holders[i], "used_bytes")), is_full(*holders[i]) ? "!" : "");
    if (count > 0 && count < holders.size()) named += fmt::format("  and {} more", holders.size() - count);
    return line + named + rest;
  };
  std::size_t count = std::min(holders.size(), kMaxHolders);
  const auto fits = [&] { return text_columns(with(count)) <= terminal_columns(); };
  if (count == holders.size() && fits()) return with(count);
  std::stable_sort(holders.begin(), holders.end(), [](const json* left, const json* right) {
    return bytes_of(*left, "used_bytes") > bytes_of(*right, "used_bytes");
  });
  while (count > 0 && !fits()) --count;
  return with(count);
}

std::string remark(const Session& session, const json& row) {
  const std::string state = row.value("state", "running");
  if (row.contains("book_altered")) return row["book_altered"].get<std::string>();
  if (state == "shrinking" || state == "waiting" || state == "suspended") return session.painted(state, 33);
  if (state == "ended") return "ended, but other processes still share its memory";
  if (row.contains("held_back_by"))
    return fmt::format("of {}: {}", session.size(bytes_of(row, "configured_limit_bytes")),
                       row["held_back_by"].get<std::string>());
  if (is_full(row)) return session.painted("FULL", 31);
  const auto denials = row.value("denials", std::uint64_t{0}) + row.value("host_denials", std::uint64_t{0});
  if (denials > 0)
    return fmt::format("{} denied - {}", denials, session.hint(command({"why", row.value("last_denial", "")})));
  const auto unlisted = row.value("unlisted_function_count", std::uint64_t{0});
  if (unlisted == 0 && row.contains("launchers"))
    return fmt::format("started {}: programs that launchers start run outside of this workload, without its limit - {}",
                       fmt::join(row["launchers"].get<std::vector<std::string>>(), ", "),
                       session.hint("ration help enforcement"));
  if (unlisted == 0) return "";
  const json& names = row.at("unlisted_functions");
  return fmt::format("called {}{}, which ration does not know - {}",
                     names.empty() ? "functions" : names.back().get<std::string>(),
                     unlisted > 1 ? fmt::format(" and {} more", unlisted - 1) : "",
                     session.hint("ration doctor --only enforce.functions"));
}

std::string pids(const json& row) {
  const json& processes = row.at("processes");
  if (!processes.is_array() || processes.empty()) return "-";
  const auto first = processes.front().at("pid").get<int>();
  const auto count = row.value("process_count", processes.size());
  return count == 1 ? std::to_string(first) : fmt::format("{} +{}", first, count - 1);
}

/// Returns the workload's pinned host memory, and in text its limit if it has one; `-` if it has neither.
std::string pinned(const Session& session, const json& row) {
  const auto used = known_bytes(row, "host_used_bytes"), limit = known_bytes(row, "host_limit_bytes");
  if (used && session.format() == Format::kCsv) return session.size(*used);
  if (!used || (*used == Bytes{0} && !limit)) return "-";
  if (!limit) return session.size(*used);
  return fmt::format("{} of {}", session.size(*used), session.size(*limit));
}

/// Returns the number of denials. In text, adds those of pinned host memory, which every row of a workload shows.
std::uint64_t denials(const Session& session, const json& row) {
  return row.value("denials", std::uint64_t{0}) +
         (session.format() == Format::kCsv ? 0 : row.value("host_denials", std::uint64_t{0}));
}

void add_governed(const Session& session, Table& table, const json& row) {
  table.add({row.at("tenant").get<std::string>() + "/" + row.at("workload").get<std::string>(), pids(row),
             row.at("gpu").is_number() ? std::to_string(row["gpu"].get<int>()) : "n/a",
             session.size(bytes_of(row, "used_bytes")), session.size(bytes_of(row, "limit_bytes")),
             session.size(bytes_of(row, "peak_bytes")), pinned(session, row), std::to_string(denials(session, row)),
             row.contains("book_altered") ? session.painted("BOOK ALTERED", 31)
                                          : fmt::format("yes ({})", row.value("enforced_by", "shim")),
             remark(session, row)});
}

void add_ungoverned(const Session& session, Table& table, const json& row) {
  const json& process = row.at("processes").at(0);
  const std::string command = process.at("command").is_string() ? process["command"].get<std::string>() : "-";
  const auto known = [&](const char* field) {
    return row.contains(field) && row[field].is_string() ? row[field].get<std::string>() : std::string();
  };
  const std::string origin = node::whereabouts(known("user"), known("container"), known("origin"));
  const std::string where =
      fmt::format("{}{}{} - {}", known("workload_na"), origin.empty() ? "" : ": ", origin,
                  session.hint(ration::command({"explain", std::to_string(process.at("pid").get<int>())})));
  const std::string program = command.substr(0, command.find(' '));
  table.add({"?/" + program.substr(program.rfind('/') + 1), std::to_string(process.at("pid").get<int>()),
             std::to_string(row.at("gpu").get<int>()),
             session.size(known_bytes(row, "used_bytes"), row.value("used_bytes_na", "not known").c_str()), "-", "-",
             "-", "-", row.at("governed").is_null() ? "unknown" : session.painted("UNGOVERNED", 33), where});
}

/// Returns `nlp/train`, or the tenant alone if the lease has no name (of a daemon before 1.0).
std::string lease_name(const json& lease) {
  const std::string tenant = lease.at("tenant");
  const auto name = lease.find("name");
  return name == lease.end() || !name->is_string() ? tenant : tenant + "/" + name->get<std::string>();
}

void print_queue(const Session& session, const json& queue) {
  if (queue.empty()) return;
  Table table({{"WAITS", "lease"},
               {"WORKLOAD", "workload"},
               {"USER", "user"},
               {"FOR", "bytes", true},
               {"WAITED", "waited_seconds", true},
               {"GPU", "gpu"},
               {"PLACE", "position"},
               {"", "reason"}});
  for (const json& lease : queue) {
    table.add({lease.at("lease").get<std::string>(), lease_name(lease), lease.at("user").get<std::string>(),
               session.size(bytes_of(lease, "bytes")),
               format_duration(lease.value("waited_seconds", std::uint64_t{0}) * 1'000'000'000),
               lease.at("gpu").get<std::string>(),
               fmt::format("{} of {}", lease.value("position", 0), lease.value("of", 0)), lease.value("reason", "")});
  }
  fmt::print("\n");
  table.print(session.format());
}

// Prints, for each simulated node that is not shown, how many workloads run on it and the command that shows it.
void print_other_nodes(const Session& session, const json& devices, const json& rows) {
  for (const auto& [simulation, count] : workloads_of_other_nodes(session, devices, rows))
    fmt::print("{} more on simulated GPUs:  {}\n", count, command({"ps", "--sim=" + simulation}));
}

// Fields of the snapshot that the table does not show.
constexpr std::string_view kNotShown[] = {"run",
                                          "slice",
                                          "started",
                                          "guarantee_bytes",
                                          "context_bytes",
                                          "pooled_bytes",
                                          "limit_changes",
                                          "idle_seconds",
                                          "suspended_bytes",
                                          "device",
                                          "labels",
                                          "shrinking",
                                          "tenants",
                                          "schedules",
                                          "promised_bytes",
                                          "driver_used_bytes",
                                          "policy",
                                          "available_bytes"};

/// Returns true if a row is of the workload named by NAME, TENANT/NAME or USER/NAME.
bool is_named(const json& row, const std::string& name) {
  if (!governed(row)) return false;  // an ungoverned process has no name
  const std::string own = row.value("workload", "");
  return !own.empty() &&
         (name == own || name == row.value("tenant", "") + "/" + own ||
          (row.contains("user") && row["user"].is_string() && name == row["user"].get<std::string>() + "/" + own));
}

/// Sorts rows by fields: `-used,name` puts the largest first, then sorts by name. Fails with E1431.
Result<void> sort_rows(json& list, const std::string& text) {
  if (text.empty()) return {};
  RATION_TRY(const auto order, rows::Order::parse(text));
  const std::vector<rows::Row> all = rows::read_snapshot({{"workloads", list}}).rows;
  std::vector<const rows::Row*> sorted;
  for (const rows::Row& row : all) sorted.push_back(&row);
  order.sort(sorted);
  json result = json::array();
  for (const rows::Row* row : sorted) result.push_back(std::move(list[static_cast<std::size_t>(row - all.data())]));
  list = std::move(result);
  return {};
}

/// Returns why there is no row, and what to type. `all` is the number of rows before the options chose some of them.
std::string nothing_runs(const Session& session, const PsOptions& options, const json& snapshot, std::size_t all) {
  if (!options.filter.empty())
    return fmt::format("no row matches the filter: {}  {}", printable(options.filter), session.hint("ration ps"));
  if (!options.tenant.empty() || !options.user.empty())
    return fmt::format("no row belongs to{}{}; {} {} to others.  {}",
                       options.tenant.empty() ? "" : fmt::format(" tenant '{}'", printable(options.tenant)),
                       options.user.empty() ? "" : fmt::format(" user '{}'", printable(options.user)),
                       counted(all, "row"), all == 1 ? "belongs" : "belong", session.hint("ration ps"));
  if (snapshot.at("devices").empty() && snapshot.contains("warnings")) {
    const json& warning = snapshot["warnings"].at(0);
    return fmt::format("nothing runs under a limit, and no GPU is known: {}\n  {}",
                       warning.at("message").get<std::string>(), session.hint(warning.at("fix").get<std::string>()));
  }
  return "nothing runs under a limit.  " + session.hint("ration run --limit 4GiB -- python train.py");
}

/// Prints the rows. Separates simulated runs from those of the machine, except in csv or if all belong to the one node
/// that was named.
void print_rows(const Session& session, const json& rows, bool of_one_node, const std::string& without) {
  std::map<std::string, std::vector<const json*>> nodes{{"", {}}};
  const bool together = of_one_node || session.format() == Format::kCsv;
  for (const json& row : rows) nodes[together ? "" : row.value("simulation", "")].push_back(&row);
  for (const auto& [simulation, shown] : nodes) {
    Table table({{"WORKLOAD", "workload"},
                 {"PID", "pid", false, false, 2},
                 {"GPU", "gpu"},
                 {"USED", "used_bytes", true},
                 {"LIMIT", "limit_bytes", true},
                 {"PEAK", "peak_bytes", true, false, 4},
                 {"PINNED", "host_used_bytes", true, true, 3},
                 {"DENIED", "denials", true},
                 {"GOVERNED", "governed", false, false, 1},
                 {"", "remark"}});
    for (const json* row : shown) {
      if (governed(*row))
        add_governed(session, table, *row);
      else
        add_ungoverned(session, table, *row);
    }
    if (!simulation.empty()) fmt::print("\nsimulated: {}\n", command({"ps", "--sim=" + simulation}));
    if (!table.empty() || session.format() == Format::kCsv)
      table.print(session.format());
    else
      fmt::print("{}\n", without);
  }
}

/// Leaves in `devices` and `rows` only the GPU named `gpu`: an index, a MIG instance, or a UUID. Fails with E1407.
Result<void> choose_gpu(const Session& session, const std::string& gpu, json& devices, json& rows) {
  const auto matches = [&](const json& device) {
    return gpu == std::to_string(device.at("gpu").get<int>()) || gpu == mig_label(device) ||
           (gpu.size() > 4 && device.at("uuid").get<std::string>().rfind(gpu, 0) == 0);
  };
  const auto found = std::find_if(devices.begin(), devices.end(), matches);
  if (found == devices.end()) {
    RATION_TRY(session.machine());
    return fail("E1407", fmt::format("there is no GPU '{}' on this machine.", gpu), "ration ps   shows them", 3);
  }
  const json chosen = *found;
  devices = json::array({chosen});
  std::erase_if(rows.get_ref<json::array_t&>(), [&](const json& row) { return row.at("gpu") != chosen.at("gpu"); });
  return {};
}

/// Leaves in `rows` the workloads that the options name, sorted as they say. Fails with E1801, or E1450 if another
/// version runs that workload.
Result<void> choose_rows(const Session& session, const PsOptions& options, json& rows) {
  std::erase_if(rows.get_ref<json::array_t&>(), [&](const json& row) {
    const auto other = [&](const char* field, const std::string& wanted) {
      return !wanted.empty() && (!row.contains(field) || row[field] != wanted);
    };
    return other("tenant", options.tenant) || other("user", options.user) ||
           (!options.name.empty() && !is_named(row, options.name));
  });
  if (!options.name.empty() && rows.empty()) {
    if (const auto store = session.store()) RATION_TRY(is_of_this_version(*store, options.name));
    return tl::unexpected(unknown_name(session, options.name));
  }
  return sort_rows(rows, options.sort);
}

/// Prints the snapshot as one document, with what text output has around the table.
void print_json(const Session& session, const json& snapshot, const json& devices, const json& rows) {
  json more{{"devices", devices}, {"warnings", snapshot.value("warnings", json::array())}};
  if (const auto store = session.store())
    for (const auto& book : running_of_other_versions(*store))
      more["warnings"].push_back({{"id", book.id}, {"message", book.what}, {"fix", book.fix}});
  if (snapshot.contains("queue")) more.update({{"queue", snapshot.at("queue")}, {"source", "daemon"}});
  session.print_json("ps", rows, more);
}

/// Prints a line for each device, with the workloads that hold it. Says that the machine's daemon is missing if no
/// daemon answered.
void print_devices(const Session& session, const json& devices, const json& rows, bool by_daemon) {
  std::map<json, std::vector<const json*>> holders;  // by GPU
  for (const json& row : rows)
    if (governed(row)) holders[row.at("gpu")].push_back(&row);
  std::vector<std::string> uuids;
  for (const json& device : devices) uuids.push_back(device.at("uuid"));
  if (!by_daemon && node::machine_daemon_is_missing(uuids)) fmt::print("{}\n", kDaemonIsMissing);
  for (const json& device : devices)
    fmt::print("{}\n", device_line(session, device, std::move(holders[device.at("gpu")])));
}

/// Prints the rows of each tenant as one. Leaves out those of other simulated nodes, whose GPUs have the same numbers.
Result<void> print_by_tenant(const Session& session, const PsOptions& options, const json& snapshot,
                             const json& devices, json& rows, const std::string& without) {
  std::erase_if(rows.get_ref<json::array_t&>(), [&](const json& row) {
    return !session.simulated && !snapshot.contains("queue") && !row.value("simulation", "").empty();
  });
  json tenants = snapshot.value("tenants", json::array());
  std::erase_if(tenants.get_ref<json::array_t&>(),
                [&](const json& tenant) { return !options.tenant.empty() && tenant.at("tenant") != options.tenant; });
  // Without a daemon, tenants are known only by their workloads.
  const bool with_idle =
      snapshot.contains("queue") && options.name.empty() && options.user.empty() && options.filter.empty();
  json sums = sums_by_tenant(rows, tenants, devices, with_idle);
  RATION_TRY(sort_rows(sums, options.sort));
  if (!sums.empty() || session.format() == Format::kCsv)
    print_tenants(session, sums);
  else
    fmt::print("{}\n", without);
  return {};
}

Result<int> ps_once(const Session& session, const PsOptions& options) {
  const bool as_json = session.format() == Format::kJson, as_text = session.format() == Format::kText;
  std::span<const std::string_view> not_shown = kNotShown;
  if (as_json || !options.by.empty() || !options.sort.empty())  // rows can be sorted by what is not shown, too
    not_shown = {};
  RATION_TRY(auto snapshot, node_snapshot(session, {.processes = as_json ? node::kAllProcesses : 1,
                                                    .passed_over = not_shown,
                                                    .filter = options.filter}));
  json devices = snapshot.at("devices"), rows = std::move(snapshot.at("workloads"));
  if (!options.gpu.empty()) RATION_TRY(choose_gpu(session, options.gpu, devices, rows));
  const std::size_t all = rows.size();
  RATION_TRY(choose_rows(session, options, rows));
  if (session.output == "jsonl") {
    for (const json& row : rows) fmt::print("{}\n", one_line(row));
    return 0;
  }
  if (as_json) {
    print_json(session, snapshot, devices, rows);
    return 0;
  }
  if (as_text) print_devices(session, devices, rows, snapshot.contains("queue"));
  const std::string without = nothing_runs(session, options, snapshot, all);
  if (options.by.empty())
    print_rows(session, rows, session.simulated || snapshot.contains("queue"), without);
  else
    RATION_TRY(print_by_tenant(session, options, snapshot, devices, rows, without));
  if (!as_text) return 0;
  if (snapshot.contains("queue")) print_queue(session, snapshot.at("queue"));
  for (const json& device : devices) print_slices(session, device.at("gpu"), device.at("uuid"));
  print_other_nodes(session, snapshot.at("devices"), rows);
  if (const auto store = session.store())
    for (const auto& book : running_of_other_versions(*store)) session.print_finding(book.id, book.what, book.fix);
  return 0;
}

}  // namespace

Result<int> ps(const Session& session, const PsOptions& options) {
  if (!options.by.empty() && session.format() == Format::kJson)
    return fail("E1001", "ration ps --by tenant is a table: it has no JSON.",
                "ration ps --by tenant -o csv   or, with the tenant of each workload: ration ps -o json", 2);
  if (options.every.empty()) return ps_once(session, options);
  RATION_TRY(const auto every, parse_duration(options.every));
  const bool screen = ::isatty(STDOUT_FILENO) != 0 && session.format() == Format::kText;
  for (;;) {
    if (screen) fmt::print("\033[H\033[J");
    const auto shown = ps_once(session, options);
    if (!shown) return shown;
    if (!screen && session.format() == Format::kText) fmt::print("\n");
    if (std::fflush(stdout) != 0) return 0;  // the reader of this pipe is gone
    std::this_thread::sleep_for(std::chrono::nanoseconds(every));
  }
}

}  // namespace ration::cli
