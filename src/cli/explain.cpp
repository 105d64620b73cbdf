// `ration explain`: where the bytes of a process, a workload or a device are, and which numbers elsewhere they match.
#include "node/explain.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cli/holders.hpp"
#include "cli/node_client.hpp"
#include "cli/verbs.hpp"
#include "node/people.hpp"

namespace ration::cli {
namespace {

struct Part {
  std::string key, label;
  std::optional<Bytes> bytes;
  std::string source;  // or the reason why there is no number
};

nlohmann::json as_json(const std::vector<Part>& parts) {
  auto rows = nlohmann::json::array();
  for (const Part& part : parts) {
    nlohmann::json row{{"part", part.key}, {"label", part.label}};
    if (part.bytes)
      row.update({{"bytes", part.bytes->count()}, {"source", part.source}});
    else
      row.update({{"bytes", nullptr}, {"bytes_na", part.source}});
    rows.push_back(row);
  }
  return rows;
}

void print_parts(const Session& session, const std::vector<Part>& parts, const std::optional<Bytes>& total,
                 const std::string& note) {
  const auto line = [&](const std::string& label, const std::string& size, const std::string& percent,
                        const std::string& source) {
    fmt::print("  {:<38} {:>10}  {:>4}   {}\n", label, size, percent, source);
  };
  for (const Part& part : parts) {
    if (!part.bytes) {
      line(part.label, "n/a", "", "(" + part.source + ")");
      continue;
    }
    const bool share = total && *total > Bytes{0};
    line(part.label, session.size(*part.bytes),
         share ? fmt::format("{}%", part.bytes->count() * 100 / total->count()) : "", part.source);
  }
  fmt::print("  {}\n", std::string(53, '-'));
  line("total, as nvidia-smi shows it", total ? session.size(*total) : "n/a", "", note);
}

std::optional<Bytes> by_driver(const std::vector<policy::Device>& devices, const ledger::DeviceUuid& uuid,
                               std::int32_t pid) {
  for (const auto& device : devices) {
    if (device.bytes != uuid || !device.processes) continue;
    for (const auto& process : *device.processes) {
      if (process.pid == pid) return process.held;
    }
  }
  return std::nullopt;
}

void print_other_numbers() {
  fmt::print("Other numbers you may be looking at\n");
  fmt::print("  torch.cuda.memory_allocated / tf get_memory_info 'current'   part of the first row\n");
  fmt::print(
      "  torch.cuda.memory_reserved                                   the first row (caching allocator) or the second "
      "(cudaMallocAsync)\n");
  fmt::print("  nvidia-smi, nvtop                                            the total\n");
}

// A row of the daemon's, or of what it would say.
Part part_of(const nlohmann::json& row) {
  Part part{row.at("id"), row.at("label"), std::nullopt, ""};
  if (row.at("bytes").is_number()) part.bytes = Bytes{row["bytes"].get<std::uint64_t>()};
  part.source = row.at(part.bytes ? "source" : "bytes_na");
  return part;
}

std::vector<Part> parts_of(const nlohmann::json& rows) {
  std::vector<Part> parts;
  for (const auto& row : rows) parts.push_back(part_of(row));
  return parts;
}

Bytes bytes_in(const nlohmann::json& row, const char* field) { return Bytes{row.at(field).get<std::uint64_t>()}; }

nlohmann::json source_of(const std::optional<NodeClient>& daemon) {
  return daemon ? nlohmann::json{{"source", "daemon"}} : nlohmann::json::object();
}

// What the daemon says where there is one: it knows who is suspended, and whom its rules count a workload to.
Result<nlohmann::json> device_document(const Session& session, std::optional<NodeClient>& daemon,
                                       const policy::Device& device) {
  if (daemon) return daemon->get(fmt::format("/api/v1/devices/{}/explain", device.index));
  const auto now = look_directly(session);
  if (!now) return tl::unexpected(now.error());
  const auto view = std::find_if(now->devices.begin(), now->devices.end(),
                                 [&](const node::DeviceView& each) { return each.device.index == device.index; });
  if (view == now->devices.end()) return fail("E1403", "the device is not there any more.", "ration doctor", 3);
  return node::explain_device(*now, *view, {true, ::getuid()});
}

Result<nlohmann::json> tenant_document(const Session& session, std::optional<NodeClient>& daemon,
                                       const std::string& tenant) {
  if (daemon) return daemon->get(fmt::format("/api/v1/tenants/{}/explain", percent_encoded(tenant)));
  const auto now = look_directly(session);
  if (!now) return tl::unexpected(now.error());
  auto document = node::explain_tenant(*now, tenant);
  if (document.at("devices").empty())
    return fail("E1801", fmt::format("nothing of a tenant '{}' holds GPU memory.", tenant), "ration ps", 3);
  return document;
}

Result<int> explain_device(const Session& session, std::optional<NodeClient>& daemon, const policy::Device& device) {
  const auto document = device_document(session, daemon, device);
  if (!document) return tl::unexpected(document.error());
  std::vector<Part> parts = parts_of(document->at("rows"));
  const auto free = std::find_if(parts.begin(), parts.end(), [](const Part& part) { return part.key == "free"; });
  const Bytes left = free == parts.end() ? Bytes{0} : free->bytes.value_or(Bytes{0});
  if (free != parts.end()) parts.erase(free);
  const Bytes used = bytes_in(*document, "used_bytes"), total = bytes_in(*document, "total_bytes");
  if (session.format() == Format::kJson) {
    session.print_json("explain",
                       {{"gpu", device.index},
                        {"name", device.name},
                        {"total_bytes", total.count()},
                        {"free_bytes", left.count()},
                        {"used_bytes", used.count()},
                        {"parts", as_json(parts)}},
                       source_of(daemon));
    return 0;
  }
  fmt::print("GPU {} {} - where {} of {} are\n", device.index, device.name, session.size(used), session.size(total));
  print_parts(session, parts, used, fmt::format("{} free", session.size(left)));
  return 0;
}

Result<int> explain_tenant(const Session& session, std::optional<NodeClient>& daemon, const std::string& tenant) {
  const auto document = tenant_document(session, daemon, tenant);
  if (!document) return tl::unexpected(document.error());
  if (session.format() == Format::kJson) {
    session.print_json("explain", *document, source_of(daemon));
    return 0;
  }
  if (document->at("devices").empty()) fmt::print("tenant {} holds no GPU memory.\n", tenant);
  for (const auto& device : document->at("devices")) {
    std::optional<Bytes> driver;
    if (device.at("driver_bytes").is_number()) driver = bytes_in(device, "driver_bytes");
    const Bytes used = bytes_in(device, "used_bytes"), away = bytes_in(device, "suspended_bytes");
    fmt::print("tenant {} on GPU {} {} - where {} are\n", tenant, device.at("gpu").get<int>(),
               device.at("device").get<std::string>(), session.size(driver.value_or(used)));
    print_parts(session, parts_of(device.at("rows")), driver, "");
    fmt::print("held by\n");
    for (const auto& workload : device.at("workloads"))
      fmt::print("  {:<38} {:>10}         limit {}\n", workload.at("workload").get<std::string>(),
                 session.size(bytes_in(workload, "used_bytes")), session.size(bytes_in(workload, "limit_bytes")));
    if (away > Bytes{0}) fmt::print("  {} more are in host memory: suspended\n", session.size(away));
  }
  return 0;
}

/// What the daemon says of the workloads of this node; empty without one.
nlohmann::json rows_of_daemon(std::optional<NodeClient>& daemon) {
  if (!daemon) return nlohmann::json::array();
  auto snapshot = daemon->get(snapshot_path(1));
  return snapshot ? std::move(snapshot->at("workloads")) : nlohmann::json::array();
}

/// The row of one account, by the workload's name, the number of its run and the device's; null: there is none.
const nlohmann::json* row_of(const nlohmann::json& rows, const Holder& holder, const std::optional<int>& gpu) {
  for (const auto& row : rows)
    if (row.value("governed", false) && row.at("workload") == holder.book.name &&
        row.at("run") == holder.book.run_number && (!gpu || row.at("gpu") == *gpu))
      return &row;
  return nullptr;
}

bool is_meant(const Holder& holder, const ledger::ProcessSnapshot& process, const std::string& target) {
  const std::string& name = holder.book.name;
  return target == name || target == holder.book.tenant + "/" + name ||
         target == node::user_name(process.identity.user) + "/" + name ||
         target == std::to_string(process.identity.pid);
}

void print_overrun(const Session& session, const node::Overrun& overrun, const node::Overrunner& who) {
  for (const auto& line : node::sentences(overrun, [&](Bytes bytes) { return session.size(bytes); }))
    fmt::print("  {}\n", line);
  if (!who.held_back_by.empty()) fmt::print("  its limit is held back: {}\n", who.held_back_by);
  fmt::print("  → {}\n", node::way_out(overrun, who));
}

/// One process of a workload on one device.
class ProcessPage {
 public:
  ProcessPage(const Holder& holder, const ledger::ProcessSnapshot& process, const std::vector<policy::Device>& devices,
              const nlohmann::json& daemon_rows)
      : holder_(holder), process_(process) {
    for (const auto& device : devices)
      if (device.bytes == holder.entry().device) gpu_ = device.index;
    if (const auto* row = row_of(daemon_rows, holder, gpu_); row != nullptr) {
      away_ = row->value("suspended_bytes", std::uint64_t{0}) > 0;
      held_back_by_ = row->value("held_back_by", "");
    }
    counted_ = holder.book.account_mode == ledger::AccountMode::kDevice;
    holding_ = {process.held[holder.account], process.context[holder.account], process.pooled[holder.account],
                by_driver(devices, holder.entry().device, process.identity.pid), counted_};
    if (!away_) overrun_ = overrun_of_all();
  }

  [[nodiscard]] bool away() const { return away_; }

  [[nodiscard]] nlohmann::json document() const {
    const Bytes held = away_ ? Bytes{0} : holding_.held;
    nlohmann::json row{{"pid", process_.identity.pid},
                       {"command", process_.command},
                       {"workload", holder_.book.name},
                       {"device", holder_.entry().device_name},
                       {"held_bytes", held.count()},
                       {"suspended_bytes", (holding_.held - held).count()},
                       {"limit_bytes", holder_.entry().limit.count()},
                       {"parts", as_json(parts())}};
    row["gpu"] = gpu_ ? nlohmann::json(*gpu_) : nlohmann::json();
    if (!gpu_) row["gpu_na"] = "the device is not on this machine";
    if (overrun_) row["shrinking"] = node::overrun_json(*overrun_, self());
    return row;
  }

  void print(const Session& session) const {
    const std::string who =
        fmt::format("{} (pid {}, workload {})", process_.command, process_.identity.pid, holder_.book.name);
    const std::string gpu = gpu_ ? fmt::format("GPU {}", *gpu_) : std::string("a GPU that is not here");
    if (away_) {
      fmt::print("{} is suspended on {}: its {} of {} are in host memory until it works again.\n", who, gpu,
                 session.size(holding_.held), holder_.entry().device_name);
      return;
    }
    fmt::print("{} on {} {} - where {} are\n", who, gpu, holder_.entry().device_name,
               session.size(holding_.driver.value_or(holding_.held)));
    print_parts(session, parts(), holding_.driver,
                fmt::format("limit counts {} of {} (account = {})", session.size(holding_.held),
                            session.size(holder_.entry().limit), counted_ ? "device" : "heap"));
    if (overrun_) print_overrun(session, *overrun_, self());
  }

 private:
  [[nodiscard]] node::Overrunner self() const { return {holder_.book.name, gpu_, held_back_by_}; }

  [[nodiscard]] std::vector<Part> parts() const {
    return away_ ? std::vector<Part>{} : parts_of(node::rows_of(holding_));
  }

  /// The limit is of all processes together.
  [[nodiscard]] std::optional<node::Overrun> overrun_of_all() const {
    Bytes context, pooled;
    for (const auto& process : holder_.book.processes)
      context += process.context[holder_.account], pooled += process.pooled[holder_.account];
    return node::overrun_of(holder_.entry().used, holder_.entry().limit, context, pooled);
  }

  const Holder& holder_;
  const ledger::ProcessSnapshot& process_;
  std::optional<int> gpu_;
  bool away_ = false, counted_ = true;
  std::string held_back_by_;
  node::Holding holding_;
  std::optional<node::Overrun> overrun_;
};

Result<int> explain_processes(const Session& session, const std::vector<Holder>& meant,
                              const nlohmann::json& daemon_rows, const std::vector<policy::Device>& devices,
                              const std::string& target) {
  auto rows = nlohmann::json::array();
  bool any_table = false;
  for (const Holder& holder : meant) {
    for (const auto& process : holder.book.processes) {
      if (!is_meant(holder, process, target)) continue;
      const ProcessPage page(holder, process, devices, daemon_rows);
      rows.push_back(page.document());
      if (session.format() == Format::kJson) continue;
      page.print(session);
      any_table = any_table || !page.away();
    }
  }
  if (session.format() == Format::kJson)
    session.print_json("explain", rows);
  else if (any_table)
    print_other_numbers();
  return 0;
}

/// A workload in a book that this user cannot read, as the daemon tells it to those who may know.
Result<int> explain_by_daemon(const Session& session, const nlohmann::json& accounts) {
  if (session.format() == Format::kJson) {
    session.print_json("explain", accounts, {{"source", "daemon"}});
    return 0;
  }
  for (const auto& account : accounts) {
    std::optional<Bytes> driver;
    if (account.at("driver_bytes").is_number()) driver = bytes_in(account, "driver_bytes");
    const Bytes used = bytes_in(account, "used_bytes"), away = bytes_in(account, "suspended_bytes");
    fmt::print("workload {} on GPU {} - where {} are\n", account.at("workload").get<std::string>(),
               account.at("gpu").is_number() ? std::to_string(account["gpu"].get<int>()) : "n/a",
               session.size(driver.value_or(used)));
    print_parts(
        session, parts_of(account.at("rows")), driver,
        fmt::format("limit counts {} of {}", session.size(used), session.size(bytes_in(account, "limit_bytes"))));
    if (away > Bytes{0}) fmt::print("  {} more are in host memory: suspended\n", session.size(away));
    if (const auto shrinking = account.find("shrinking"); shrinking != account.end())
      fmt::print("  {}\n  → {}\n", (*shrinking)["text"].get<std::string>(), (*shrinking)["fix"].get<std::string>());
  }
  return 0;
}

/// `field` of a row, or why it is not known.
std::string told(const nlohmann::json& row, const char* field) {
  const auto found = row.find(field);
  if (found != row.end() && found->is_string() && !found->get<std::string>().empty()) return found->get<std::string>();
  return fmt::format("n/a ({})", row.value(std::string(field) + "_na", "it cannot be read"));
}

/// What `[defaults] ungoverned` of the daemon means for who is not governed.
std::string policy_text(const std::string& policy) {
  if (policy == "warn") return "warn: an alert is told, nothing else is done";
  if (policy == "terminate") return "terminate: it is ended after [defaults] grace";
  return "report: it is shown, nothing else is done";
}

/// A process in no book: who, where from, how much, and what is done about it.
nlohmann::json ungoverned_document(const std::vector<nlohmann::json>& rows, bool by_daemon) {
  const auto& first = rows.front();
  const auto& process = first.at("processes").at(0);
  nlohmann::json document{{"pid", process.at("pid")}, {"governed", false}};
  const auto enter = [&](const char* field, const nlohmann::json& value, const std::string& reason) {
    const bool known = value.is_string() && !value.get<std::string>().empty();
    document[field] = known ? value : nlohmann::json();
    if (!known) document[std::string(field) + "_na"] = reason;
  };
  const std::string command = command_of(process.at("pid").get<std::int32_t>());
  enter("user", first.at("user"), "it cannot be seen from here");
  enter("command", process.at("command").is_string() ? process["command"] : nlohmann::json(command),
        process.value("command_na", "it cannot be seen from here"));
  for (const char* field : {"container", "origin"})
    enter(field, first.at(field), first.value(std::string(field) + "_na", "not told"));
  enter("policy", by_daemon ? first.at("policy") : nlohmann::json(), "no daemon looks: ration serve");
  document["devices"] = nlohmann::json::array();
  for (const auto& row : rows) {
    nlohmann::json device{{"gpu", row.at("gpu")}, {"used_bytes", row.at("used_bytes")}};
    if (row.at("used_bytes").is_null()) device["used_bytes_na"] = row.at("used_bytes_na");
    document["devices"].push_back(std::move(device));
  }
  return document;
}

/// The command that would put it under a limit of what it holds now and an eighth more, in steps of 256 MiB.
std::string governed_command(const nlohmann::json& document) {
  constexpr std::uint64_t kStep = std::uint64_t{256} << 20;
  std::uint64_t most = 0;
  for (const auto& device : document.at("devices"))
    if (device.at("used_bytes").is_number()) most = std::max(most, device["used_bytes"].get<std::uint64_t>());
  const std::string limit = most == 0 ? "SIZE" : fmt::format("{}MiB", (most + most / 8 + kStep - 1) / kStep * 256);
  const auto& command = document.at("command");
  return fmt::format("ration run --limit {} -- {}", limit, command.is_string() ? command.get<std::string>() : "…");
}

Result<int> explain_ungoverned(const Session& session, const std::vector<nlohmann::json>& rows,
                               const std::vector<policy::Device>& devices, std::optional<NodeClient>& daemon) {
  const auto document = ungoverned_document(rows, daemon.has_value());
  const std::string what = fmt::format("pid {} is not governed: no limit holds for it.", document["pid"].get<int>());
  const std::string fix = governed_command(document);
  if (session.format() == Format::kJson) {
    nlohmann::json more = source_of(daemon);
    more["warnings"] = nlohmann::json::array({{{"id", "E1807"}, {"message", what}, {"fix", fix}}});
    session.print_json("explain", document, more);
    return 0;
  }
  const auto line = [](const char* label, const std::string& text) { fmt::print("  {:<10} {}\n", label, text); };
  fmt::print("{}\n", what);
  line("program", told(document, "command"));
  line("user", told(document, "user"));
  line("container", told(document, "container"));
  line("came from", told(document, "origin"));
  for (const auto& row : document["devices"]) {
    const int gpu = row["gpu"].get<int>();
    const auto device =
        std::find_if(devices.begin(), devices.end(), [&](const auto& each) { return each.index == gpu; });
    line("holds", fmt::format("{} on GPU {}{}",
                              row["used_bytes"].is_number() ? session.size(bytes_in(row, "used_bytes"))
                                                            : told(row, "used_bytes"),
                              gpu, device == devices.end() ? "" : " " + device->name));
  }
  line("policy",
       document["policy"].is_string() ? policy_text(document["policy"].get<std::string>()) : told(document, "policy"));
  fmt::print("  → {}{}\n", fix, document["container"].is_string() ? "   inside its container" : "");
  return 0;
}

/// What is known of a process that is in no book of this user.
struct Stranger {
  std::vector<nlohmann::json> ungoverned;  ///< its rows, one a device
  std::string workload;                    ///< `USER/NAME` of somebody else's that it belongs to; empty: of none
};

Stranger stranger(const Session& session, const std::string& target) {
  Stranger found;
  if (target.find_first_not_of("0123456789") != std::string::npos) return found;
  const auto snapshot = node_snapshot(session);
  if (!snapshot) return found;
  for (const auto& row : snapshot->at("workloads")) {
    const auto& processes = row.at("processes");
    const bool names_it = processes.is_array() &&
                          std::any_of(processes.begin(), processes.end(),
                                      [&](const auto& each) { return std::to_string(each.value("pid", 0)) == target; });
    if (!names_it) continue;
    if (row.value("governed", false))
      found.workload =
          row.at("user").template get<std::string>() + "/" + row.at("workload").template get<std::string>();
    else
      found.ungoverned.push_back(row);
  }
  return found;
}

}  // namespace

Result<int> explain(const Session& session, const std::string& target, const std::string& gpu,
                    const std::string& tenant) {
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  auto daemon = NodeClient::find(session);
  if (!daemon) return tl::unexpected(daemon.error());
  if (!tenant.empty()) return explain_tenant(session, *daemon, tenant);
  const auto machine = session.machine();
  const std::vector<policy::Device> devices = machine ? machine->devices : std::vector<policy::Device>{};
  if (target.empty()) {
    if (!machine) return tl::unexpected(machine.error());
    const auto chosen = policy::choose_devices(devices, gpu.empty() ? "0" : gpu);
    if (!chosen) return tl::unexpected(chosen.error());
    for (const auto& device : *chosen) {
      if (auto done = explain_device(session, *daemon, device); !done) return done;
    }
    return 0;
  }
  const auto all = holders(*store);
  std::vector<Holder> meant;
  std::copy_if(all.begin(), all.end(), std::back_inserter(meant), [&](const Holder& holder) {
    const auto& processes = holder.book.processes;
    return std::any_of(processes.begin(), processes.end(),
                       [&](const auto& process) { return is_meant(holder, process, target); });
  });
  if (!meant.empty()) return explain_processes(session, meant, rows_of_daemon(*daemon), devices, target);
  const Stranger other = stranger(session, target);
  if (!other.ungoverned.empty()) return explain_ungoverned(session, other.ungoverned, devices, *daemon);
  if (*daemon) {  // somebody else's is in no book that this user can read
    const std::string& name = other.workload.empty() ? target : other.workload;
    const auto others = (*daemon)->get(fmt::format("/api/v1/workloads/{}/explain", percent_encoded(name)));
    if (others && !others->empty()) return explain_by_daemon(session, *others);
    if (!others && others.error().id != "E1801") return tl::unexpected(others.error());
  }
  auto of_tenant = explain_tenant(session, *daemon, target);
  if (of_tenant || of_tenant.error().id != "E1801") return of_tenant;
  return fail("E1801", fmt::format("no running workload, process or tenant '{}' of yours holds GPU memory.", target),
              "ration ps", 3);
}

}  // namespace ration::cli
