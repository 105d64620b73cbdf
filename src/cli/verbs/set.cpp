// `ration set`: changes the limit or the guarantee of a running workload or of a tenant.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "admission/plan.hpp"
#include "base/command.hpp"
#include "cli/session/node_access.hpp"
#include "cli/session/other_versions.hpp"
#include "cli/start/admission.hpp"
#include "cli/text/fields.hpp"
#include "cli/verbs/verbs.hpp"
#include "config/configuration.hpp"
#include "machine/process_origin.hpp"

namespace ration::cli {
namespace {

std::string reach(const Session& session, const nlohmann::json& row) {
  const Bytes used = bytes_in(row, "used_bytes"), limit = bytes_in(row, "limit_bytes");
  if (limit <= bytes_in(row, "old_limit_bytes") || !row.at("device_free_bytes").is_number()) return "";
  const Bytes more = limit > used ? limit - used : Bytes{0}, free = bytes_in(row, "device_free_bytes");
  return fmt::format(" {} of the GPU is free, so {} is {} now.", session.size(free), session.size(limit),
                     more <= free ? "reachable" : "not reachable");
}

/// A framework that decides at its start how much memory it will use at most.
struct SizedAtStart {
  std::string_view library;  // a part of its library's path
  const char* name;
};
constexpr SizedAtStart kSizedAtStart[] = {{"/libtensorflow_", "TensorFlow"}, {"/xla_cuda_plugin", "JAX"}};

/// Names the processes that use a raised limit only after a restart of the program.
void show_sized_at_start(NodeAccess& node, const SetOptions& options, const nlohmann::json& document) {
  const auto rises = [](const nlohmann::json& row) {
    return bytes_in(row, "limit_bytes") > bytes_in(row, "old_limit_bytes");
  };
  const nlohmann::json& changes = document.at("changes");
  if (options.limit.empty() || std::none_of(changes.begin(), changes.end(), rises)) return;
  const auto rows = node.get("/api/v1/workloads/" + percent_encoded(options.name));
  if (!rows) return;  // the workload has ended meanwhile
  std::set<std::int32_t> told;
  for (const auto& row : *rows) {
    if (!row.at("processes").is_array()) continue;  // of another user
    for (const auto& process : row["processes"]) {
      const auto pid = process.at("pid").get<std::int32_t>();
      for (const SizedAtStart& framework : kSizedAtStart) {
        if (!machine::has_mapped(pid, framework.library).value_or(false) || !told.insert(pid).second) continue;
        fmt::print("{}: {} in process {} chose its maximum when it started. To let it use more, restart the program.\n",
                   row.at("workload").get<std::string>(), framework.name, pid);
      }
    }
  }
}

void print_shrinking(const Session& session, const std::string& name, Bytes used, Bytes limit) {
  fmt::print(
      "{}: shrinking, {} above its limit. It keeps that memory; further requests are denied until it holds less than "
      "the limit.\n",
      name, session.size(used - limit));
}

Result<void> agree_to(const Session& session, const SetOptions& options, Bytes used, Bytes limit) {
  return agree_to_shrink(session, options.name, used, limit,
                         command({"set", options.name, "--limit", options.limit, options.gpu.empty() ? "" : "--gpu",
                                  options.gpu, "--yes"}));
}

/// Prints the change of the limit of pinned host memory.
void show_host(const Session& session, const SetOptions& options, const nlohmann::json& row) {
  const auto limit = [&](const char* field) { return known_bytes(row, field).value_or(kUnlimited); };
  fmt::print("{}: host limit {} → {} ({}).\n", row.at("workload").get<std::string>(),
             session.size(limit("old_host_limit_bytes")), session.size(limit("host_limit_bytes")),
             session.dry_run ? "would be" : "now");
  const Bytes used = bytes_in(row, "host_used_bytes");
  if (used > limit("host_limit_bytes"))
    fmt::print(
        "{}: {} above its host limit. It keeps its pinned memory; further requests are denied until it holds less than "
        "that limit.\n",
        options.name, session.size(used - limit("host_limit_bytes")));
}

/// Asks for confirmation if more is held than the new limit. Fails with E1205.
Result<void> agree(const Session& session, const SetOptions& options, const nlohmann::json& document) {
  if (session.dry_run || options.limit.empty()) return {};
  for (const auto& row : document.at("changes")) {
    const Bytes limit = bytes_in(row, "limit_bytes");
    if (!row.at("shrinking").get<bool>() || limit >= bytes_in(row, "old_limit_bytes")) continue;
    RATION_TRY(agree_to(session, options, bytes_in(row, "used_bytes"), limit));
  }
  return {};
}

void show(const Session& session, const SetOptions& options, const nlohmann::json& document, nlohmann::json more) {
  if (session.format() == Format::kJson) return session.print_json("change", document, more);
  const char* when = session.dry_run ? "would be" : "now";
  for (const auto& row : document.at("changes")) {
    const auto changed = [&](const char* what, const char* old_field, const char* field) {
      const std::string gpu = row.at("gpu").is_number() ? fmt::format(" on GPU {}", row["gpu"].get<int>()) : "";
      return fmt::format("{}: {} {} → {}{} ({}).", row.at("workload").get<std::string>(), what,
                         session.size(bytes_in(row, old_field)), session.size(bytes_in(row, field)), gpu, when);
    };
    if (!options.limit.empty()) {
      fmt::print("{}", changed("limit", "old_limit_bytes", "limit_bytes"));
      if (row.contains("held_back_by"))
        fmt::print(" The limit in force is {} now: {}.\n", session.size(bytes_in(row, "effective_limit_bytes")),
                   row["held_back_by"].get<std::string>());
      else
        fmt::print("{}\n", reach(session, row));
    }
    if (row.contains("host_limit_bytes")) show_host(session, options, row);
    if (!options.guarantee.empty()) fmt::print("{}\n", changed("guarantee", "old_guarantee_bytes", "guarantee_bytes"));
    if (!options.limit.empty() && row.at("shrinking").get<bool>())
      print_shrinking(session, options.name, bytes_in(row, "used_bytes"), bytes_in(row, "limit_bytes"));
  }
}

bool is_tenant(const std::string& name) {
  const auto configuration = config::read_configuration();  // ignores mistakes in it, which the daemon reports
  return configuration && std::any_of(configuration->tenants.begin(), configuration->tenants.end(),
                                      [&](const config::Tenant& each) { return each.name.value == name; });
}

/// Sets the limit or the guarantee of a tenant, for its workloads together.
Result<int> set_tenant(NodeAccess& node, const Session& session, const SetOptions& options,
                       const nlohmann::json& request) {
  const std::string path = "/api/v1/tenants/" + percent_encoded(options.name);
  auto rows = node.patch(path + "?dry_run=1", request);
  if (!rows) return tl::unexpected(rows.error());
  for (const auto& row : *rows) {
    for (const auto& over : row.at("over")) {
      if (session.dry_run) continue;
      const Bytes used = bytes_in(over, "used_bytes"), limit = bytes_in(over, "limit_bytes");
      RATION_TRY(agree_to(session, options, used, limit));
    }
  }
  if (!session.dry_run) rows = node.patch(path, request);
  if (!rows) return tl::unexpected(rows.error());
  if (session.format() == Format::kJson) {
    session.print_json("change_tenant", *rows, node.source());
    return 0;
  }
  const auto shown = [](const nlohmann::json& text) {
    return text == "" || text == "0MiB" ? "none" : text.get<std::string>();
  };
  for (const auto& row : *rows) {
    fmt::print("tenant {}: {} {} → {} ({}).\n", row.at("tenant").get<std::string>(), row.at("what").get<std::string>(),
               shown(row.at("old")), shown(row.at("new")), session.dry_run ? "would be" : "now");
    for (const auto& over : row.at("over"))
      print_shrinking(session, fmt::format("tenant {} on GPU {}", options.name, over.at("gpu").get<int>()),
                      bytes_in(over, "used_bytes"), bytes_in(over, "limit_bytes"));
  }
  return 0;
}

}  // namespace

Result<int> set(const Session& session, const SetOptions& options) {
  if (options.limit.empty() && options.host_limit.empty() && options.guarantee.empty()) {
    return fail("E1420", "nothing to change.",
                command({"set", options.name.empty() ? "NAME" : options.name, "--limit", "6GiB"}), 2);
  }
  if (const auto store = session.store()) RATION_TRY(is_of_this_version(*store, options.name));
  RATION_TRY(const auto node, NodeAccess::open(session));
  const std::string path = "/api/v1/workloads/" + percent_encoded(options.name);
  nlohmann::json request = nlohmann::json::object();
  for (const auto& [field, text] : {std::pair{"limit", options.limit},
                                    {"host_limit", options.host_limit},
                                    {"guarantee", options.guarantee},
                                    {"gpu", options.gpu}})
    if (!text.empty()) request[field] = text;
  if (admission::takes_guarantee_away(options.guarantee))
    request["guarantee"] = "0MiB";  // a tenant's guarantee must be a size
  auto answer = node->patch(path + "?dry_run=1", request);
  if (!answer && answer.error().id == "E1801") {  // no workload has that name; a tenant may have it
    auto tenant = set_tenant(*node, session, options, request);
    const bool unknown = node->is_daemon() ? !tenant && tenant.error().id == "E1801" : !is_tenant(options.name);
    return unknown ? tl::unexpected(unknown_name(session, options.name)) : std::move(tenant);
  }
  if (!answer) return tl::unexpected(answer.error());
  RATION_TRY(agree(session, options, *answer));
  if (!session.dry_run) answer = node->patch(path, request);
  if (!answer) return tl::unexpected(answer.error());
  show(session, options, *answer, node->source());
  if (session.format() == Format::kText) show_sized_at_start(*node, options, *answer);
  return 0;
}

}  // namespace ration::cli
