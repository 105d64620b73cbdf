// `ration explain`: divides the memory of a process, a workload, a tenant or a device by kind, and names the matching
// numbers of other tools. The daemon makes the documents; if no daemon runs, this process does.
#include "node/snapshot/explain.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/command.hpp"
#include "cli/session/node_client.hpp"
#include "cli/start/admission.hpp"
#include "cli/text/fields.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

/// Explanations from the node, or from this user's books if the daemon does not know the subject.
class Explainer {
 public:
  Explainer(const Session& session, std::unique_ptr<NodeAccess> node) : session_(session), node_(std::move(node)) {}

  /// Returns the devices of the explained node, with the fields that are needed to choose a device.
  [[nodiscard]] Result<std::vector<machine::Device>> devices() {
    RATION_TRY(const auto snapshot, node_->get("/api/v1/snapshot"));
    if (const auto warnings = snapshot.find("warnings"); warnings != snapshot.end() && !warnings->empty()) {
      const json& warning = warnings->front();
      return fail(warning.at("id"), warning.at("message"), warning.at("fix"));
    }
    std::vector<machine::Device> devices;
    for (const json& row : snapshot.at("devices")) {
      machine::Device& device = devices.emplace_back();
      device.index = row.at("gpu");
      device.uuid = row.at("uuid");
      device.name = row.at("name");
      device.total = bytes_in(row, "total_bytes");
      device.free = known_bytes(row, "free_bytes");
      if (const auto mig = row.find("mig"); mig != row.end())
        device.mig = machine::MigInstance{mig->at("gpu"), mig->at("uuid"), mig->at("instance"), mig->at("profile")};
    }
    return devices;
  }
  /// Returns the explanation of a subject. `kind` is devices, tenants, workloads or processes.
  [[nodiscard]] Result<json> ask(const char* kind, const std::string& name) {
    const std::string path = fmt::format("/api/v1/{}/{}/explain", kind, percent_encoded(name));
    auto answer = node_->get(path);
    if (answer || !node_->is_daemon() || answer.error().id != "E1801") return answer;
    const auto local = LocalAccess::open(session_);
    auto own = local ? (*local)->get(path) : tl::unexpected(local.error());
    by_daemon_ = !own;
    return own ? own : answer;
  }

  void print(const std::string& schema, const json& document, json more = json::object()) const {
    if (by_daemon_) more.update(node_->source());
    session_.print_json(schema, document, more);
  }

 private:
  const Session& session_;
  std::unique_ptr<NodeAccess> node_;
  bool by_daemon_ = true;
};

void print_rows(const Session& session, const json& rows, const std::optional<Bytes>& total, const std::string& note) {
  std::size_t width = 38;
  for (const json& row : rows) width = std::max(width, row.at("label").get_ref<const std::string&>().size());
  const auto line = [&](const std::string& label, const std::string& size, const std::string& percent,
                        const std::string& source) {
    fmt::print("  {:<{}} {:>10}  {:>4}   {}\n", label, width, size, percent, source);
  };
  for (const json& row : rows) {
    const std::string label = row.at("label");
    const auto bytes = known_bytes(row, "bytes");
    if (!bytes) {
      line(label, "n/a", "", "(" + row.at("bytes_na").get<std::string>() + ")");
      continue;
    }
    const bool share = total && *total > Bytes{0};
    line(label, session.size(*bytes), share ? fmt::format("{}%", bytes->count() * 100 / total->count()) : "",
         row.at("source"));
  }
  fmt::print("  {}\n", std::string(width + 15, '-'));
  line("total, as nvidia-smi shows it", total ? session.size(*total) : "n/a", "", note);
}

void print_other_numbers() {
  fmt::print("Numbers that other tools show\n");
  fmt::print("  torch.cuda.memory_allocated / tf get_memory_info 'current'   part of the first row\n");
  fmt::print(
      "  torch.cuda.memory_reserved                                   the first row (caching allocator) or the second "
      "(cudaMallocAsync)\n");
  fmt::print("  nvidia-smi, nvtop                                            the total\n");
}

std::string gpu_text(const json& row) {
  return row.at("gpu").is_number() ? fmt::format("GPU {}", row["gpu"].get<int>())
                                   : "a GPU that is not on this "
                                     "machine";
}

/// Returns the part of the free memory that is kept, and for whom: `, 7.00 GiB of it kept: nlp 6.00 GiB, slices and
/// keep_free 1.00 GiB`; empty if none is kept. An older daemon does not tell it.
std::string kept_text(const Session& session, const json& document) {
  const Bytes kept = known_bytes(document, "kept_bytes").value_or(Bytes{0});
  if (kept == Bytes{0}) return "";
  std::vector<std::string> parts;
  Bytes of_tenants;
  for (const json& share : document.at("kept_for")) {
    const Bytes bytes = bytes_in(share, "bytes");
    of_tenants += bytes;
    parts.push_back(fmt::format("{} {}", share.at("tenant").get<std::string>(), session.size(bytes)));
  }
  if (of_tenants > kept)  // less is free than the tenants are guaranteed and do not use yet
    return fmt::format(", {} of it kept (guaranteed and not used yet: {})", session.size(kept), fmt::join(parts, ", "));
  if (of_tenants < kept) parts.push_back(fmt::format("slices and keep_free {}", session.size(kept - of_tenants)));
  return fmt::format(", {} of it kept: {}", session.size(kept), fmt::join(parts, ", "));
}

// Prints a device, with free memory below the sum.
void print_device(const Session& session, const json& document) {
  json rows = document.at("rows");
  std::optional<Bytes> left;
  std::erase_if(rows.get_ref<json::array_t&>(), [&](const json& row) {
    if (row.at("id") != "free") return false;
    left = known_bytes(row, "bytes");
    return true;
  });
  const auto used = known_bytes(document, "used_bytes");
  constexpr const char* kUndetermined = "the driver does not report it";
  fmt::print("{} {} - the parts of the {} in use (of {})\n", gpu_text(document), document.at("name").get<std::string>(),
             session.size(used, kUndetermined), session.size(bytes_in(document, "total_bytes")));
  print_rows(session, rows, used,
             fmt::format("{} free{}", session.size(left, kUndetermined), kept_text(session, document)));
}

void print_tenant(const Session& session, const json& document) {
  const std::string tenant = document.at("tenant");
  if (document.at("devices").empty()) fmt::print("tenant {} holds no GPU memory.\n", tenant);
  for (const json& device : document.at("devices")) {
    const auto driver = known_bytes(device, "driver_bytes");
    const Bytes used = bytes_in(device, "used_bytes"), away = bytes_in(device, "suspended_bytes");
    fmt::print("tenant {} on {} {} - the parts of its {}\n", tenant, gpu_text(device),
               device.at("device").get<std::string>(), session.size(driver.value_or(used)));
    print_rows(session, device.at("rows"), driver, "");
    fmt::print("held by\n");
    for (const json& workload : device.at("workloads"))
      fmt::print("  {:<38} {:>10}         limit {}\n", workload.at("workload").get<std::string>(),
                 session.size(bytes_in(workload, "used_bytes")), session.size(bytes_in(workload, "limit_bytes")));
    if (away > Bytes{0}) fmt::print("  {} more are in host memory: suspended\n", session.size(away));
  }
}

void print_overrun(const Session& session, const json& row, Bytes limit) {
  const node::Overrun overrun{bytes_in(row, "over_bytes"),   limit,
                              bytes_in(row, "pooled_bytes"), bytes_in(row, "context_bytes"),
                              bytes_in(row, "live_bytes"),   bytes_in(row, "movable_bytes")};
  for (const auto& line : node::sentences(overrun, [&](Bytes bytes) { return session.size(bytes); }))
    fmt::print("  {}\n", line);
  if (const auto by = row.find("held_back_by"); by != row.end())
    fmt::print("  its limit in force is lower than the configured limit: {}\n", by->get<std::string>());
  fmt::print("  → {}\n", session.hint(row.at("fix").get<std::string>()));
}

/// Prints the processes of one workload on one device.
void print_account(const Session& session, const json& account) {
  const std::string device = account.at("device"), workload = account.at("workload");
  const Bytes away = bytes_in(account, "suspended_bytes"), limit = bytes_in(account, "limit_bytes");
  if (account.at("processes").empty())
    fmt::print("{} holds nothing on {} {}: none of its processes has opened this GPU.\n", workload, gpu_text(account),
               device);
  for (const json& process : account.at("processes")) {
    const std::string who = fmt::format("{} (pid {}, workload {})", process.at("command").get<std::string>(),
                                        process.at("pid").get<int>(), workload);
    if (away > Bytes{0}) {
      fmt::print("{} is suspended on {} {}: {} are in host memory until it is resumed.\n", who, gpu_text(account),
                 device, session.size(away));
      continue;
    }
    const auto driver = known_bytes(process, "driver_bytes");
    const Bytes held = bytes_in(process, "used_bytes");
    fmt::print("{} on {} {} - the parts of its {}\n", who, gpu_text(account), device,
               session.size(driver.value_or(held)));
    print_rows(session, process.at("rows"), driver,
               fmt::format("counted against the limit: {} of {} (account = {})", session.size(held),
                           session.size(limit), account.at("account").get<std::string>()));
  }
  if (const Bytes shared = bytes_in(account, "shared_bytes"); shared > Bytes{0} && away == Bytes{0})
    fmt::print(
        "  of the {} that count towards its limit, {} are shared: other processes can also hold them, and each "
        "workload that holds them is charged for them\n",
        session.size(bytes_in(account, "used_bytes")), session.size(shared));
  if (const auto pinned = known_bytes(account, "host_used_bytes").value_or(Bytes{0}),
      most = known_bytes(account, "host_limit_bytes").value_or(kUnlimited);
      pinned > Bytes{0} || most < kUnlimited)
    fmt::print("  beside the GPU: {} of pinned host memory, all processes together; host limit {}\n",
               session.size(pinned), session.size(most));
  if (const auto shrinking = account.find("shrinking"); shrinking != account.end())
    print_overrun(session, *shrinking, limit);
}

void print_accounts(const Session& session, const json& accounts) {
  for (const json& account : accounts) print_account(session, account);
  const bool any_table = std::any_of(accounts.begin(), accounts.end(), [](const json& account) {
    return !account.at("processes").empty() && account.at("suspended_bytes") == 0;
  });
  if (any_table) print_other_numbers();
}

/// Returns a field of a row, or n/a with the reason.
std::string text_or_reason(const json& row, const char* field) {
  const auto found = row.find(field);
  if (found != row.end() && found->is_string() && !found->get<std::string>().empty()) return found->get<std::string>();
  return fmt::format("n/a ({})", row.value(std::string(field) + "_na", "it cannot be read"));
}

/// Explains a value of the daemon's setting `[defaults] ungoverned`, which says what happens to ungoverned processes.
std::string policy_text(const std::string& policy) {
  if (policy == "warn") return "warn: the daemon raises an alert and does nothing else";
  if (policy == "terminate") return "terminate: the daemon ends it after [defaults] grace";
  return "report: the daemon shows it and does nothing else";
}

/// Returns the command that starts the program under a limit. The limit is an eighth above what the program holds now,
/// rounded up to a multiple of 256 MiB.
std::string governed_command(const json& document) {
  constexpr Bytes kStep{std::uint64_t{256} << 20};
  std::uint64_t most = 0;
  for (const auto& device : document.at("devices"))
    if (device.at("used_bytes").is_number()) most = std::max(most, device["used_bytes"].get<std::uint64_t>());
  const std::string limit = most == 0 ? "SIZE" : exact_size(round_up(Bytes{most + most / 8}, kStep));
  const auto& program = document.at("command");
  return command({"run", "--limit", limit, "--"}) + " " +
         (program.is_string() ? quoted_words(program.get<std::string>()) : "…");
}

void print_ungoverned(const Session& session, const json& document, const std::string& what, const std::string& fix) {
  const auto line = [](const char* label, const std::string& text) { fmt::print("  {:<10} {}\n", label, text); };
  fmt::print("{}\n", what);
  line("program", text_or_reason(document, "command"));
  line("user", text_or_reason(document, "user"));
  line("container", text_or_reason(document, "container"));
  line("came from", text_or_reason(document, "origin"));
  for (const json& row : document.at("devices")) {
    const auto used = known_bytes(row, "used_bytes");
    line("holds", fmt::format("{} on {} {}", used ? session.size(*used) : text_or_reason(row, "used_bytes"),
                              gpu_text(row), row.at("device").get<std::string>()));
  }
  const json& policy = document.at("policy");
  line("policy", policy.is_string() ? policy_text(policy.get<std::string>()) : text_or_reason(document, "policy"));
  fmt::print("  → {}{}\n", session.hint(fix), document.at("container").is_string() ? "   inside its container" : "");
}

void show_process(const Session& session, const Explainer& explainer, const json& document) {
  const bool governed = document.at("governed") == true, known = document.at("governed").is_boolean();
  const int pid = document.at("pid");
  const std::string what =
      known ? fmt::format("pid {} is not governed: no limit applies to it.", pid)
            : fmt::format("pid {} belongs to {}: only root, or a daemon of root, sees whether a limit applies to it.",
                          pid, document.value("user", "another user"));
  const std::string fix = governed ? "" : known ? governed_command(document) : "ration service install --now   as root";
  if (session.format() == Format::kJson) {
    json more = json::object();
    if (!governed) more["warnings"] = json::array({{{"id", "E1807"}, {"message", what}, {"fix", fix}}});
    explainer.print("explain_process", document, more);
  } else if (governed) {
    print_accounts(session, document.at("accounts"));
  } else {
    print_ungoverned(session, document, what, fix);
  }
}

}  // namespace

Result<int> explain(const Session& session, const ExplainOptions& options) {
  const auto& [target, gpu, tenant] = options;
  RATION_TRY(auto node, NodeAccess::open(session));
  Explainer explainer(session, std::move(node));
  const bool as_json = session.format() == Format::kJson;
  const auto show = [&](const Result<json>& document, const char* schema, const auto& print) -> Result<int> {
    if (!document) return tl::unexpected(document.error());
    if (as_json)
      explainer.print(schema, *document);
    else
      print(session, *document);
    return 0;
  };
  if (!tenant.empty()) return show(explainer.ask("tenants", tenant), "explain_tenant", print_tenant);
  if (target.empty()) {
    RATION_TRY(const auto devices, explainer.devices());
    RATION_TRY(const auto chosen, machine::choose_devices(devices, gpu.empty() ? "0" : gpu));
    for (const auto& device : chosen) {
      if (auto done = show(explainer.ask("devices", std::to_string(device.index)), "explain_device", print_device);
          !done)
        return done;
      if (!as_json) print_slices(session, device.index, device.uuid);
    }
    return 0;
  }
  const auto is_answer = [](const Result<json>& document) { return document || document.error().id != "E1801"; };
  if (target.find_first_not_of("0123456789") == std::string::npos) {
    const auto process = explainer.ask("processes", target);
    if (process) return show_process(session, explainer, *process), 0;
    if (is_answer(process)) return tl::unexpected(process.error());
  }
  if (const auto workload = explainer.ask("workloads", target); is_answer(workload))
    return show(workload, "explain_workload", print_accounts);
  if (const auto of_tenant = explainer.ask("tenants", target); is_answer(of_tenant))
    return show(of_tenant, "explain_tenant", print_tenant);
  return tl::unexpected(unknown_name(session, target));
}

}  // namespace ration::cli
