// `ration explain`: where the bytes of a process, a workload or a device are, and which numbers elsewhere they match.
#include "node/explain.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cli/holders.hpp"
#include "cli/node_client.hpp"
#include "cli/verbs.hpp"

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

// The kinds of bytes a governed process holds on one device.
std::vector<Part> parts_of(const ledger::ProcessSnapshot& process, std::size_t account,
                           const std::optional<Bytes>& driver, bool contexts_counted) {
  const Bytes held = process.held[account], context = process.context[account], pooled = process.pooled[account];
  const Bytes special = context + pooled;
  std::vector<Part> parts{
      {"allocated", "allocated by the program", special < held ? held - special : Bytes{0},
       "book (tensors, and what its framework caches)"},
      {"pooled", "reserved by the driver's pools", pooled, "book"},
      {"context", "CUDA context", contexts_counted ? std::optional(context) : std::nullopt,
       contexts_counted ? "book, measured when it was made" : "account = heap: contexts are not entered"},
      {"framework_free", "of these, free inside the framework", std::nullopt,
       "only the framework knows: torch.cuda.memory_reserved - memory_allocated"}};
  if (driver) {
    parts.push_back({"unexplained", "not explained (code, driver)", *driver > held ? *driver - held : Bytes{0},
                     "driver minus book"});
  } else {
    parts.push_back({"unexplained", "not explained (code, driver)", std::nullopt,
                     "the driver does not attribute memory to this process"});
  }
  return parts;
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

/// Workloads whose memory is not on the device: name and number of the run.
using Runs = std::set<std::pair<std::string, std::uint64_t>>;

Runs suspended_runs(std::optional<NodeClient>& daemon) {
  Runs runs;
  if (!daemon) return runs;
  const auto snapshot = daemon->get(snapshot_path(1));
  if (!snapshot) return runs;
  for (const auto& row : snapshot->at("workloads"))
    if (row.value("suspended_bytes", std::uint64_t{0}) > 0)
      runs.emplace(row.at("workload").get<std::string>(), row.at("run").get<std::uint64_t>());
  return runs;
}

/// Without a daemon nobody knows of books of other users.
bool is_ungoverned(std::optional<NodeClient>& daemon, std::int32_t pid) {
  if (!daemon) return true;
  const auto snapshot = daemon->get(snapshot_path(1));
  if (!snapshot) return true;
  for (const auto& row : snapshot->at("workloads")) {
    const auto processes = row.find("processes");
    if (row.value("governed", false) || processes == row.end() || !processes->is_array()) continue;
    for (const auto& process : *processes)
      if (process.value("pid", 0) == pid) return true;
  }
  return false;
}

bool is_meant(const Holder& holder, const ledger::ProcessSnapshot& process, const std::string& target) {
  return target == holder.book.name || target == holder.book.tenant + "/" + holder.book.name ||
         target == std::to_string(process.identity.pid);
}

Result<int> explain_processes(const Session& session, const std::vector<Holder>& meant, const Runs& suspended,
                              const std::vector<policy::Device>& devices, const std::string& target) {
  auto rows = nlohmann::json::array();
  bool any_table = false;
  for (const Holder& holder : meant) {
    const bool away = suspended.count({holder.book.name, holder.book.run_number}) != 0;
    const bool counted = holder.book.account_mode == ledger::AccountMode::kDevice;
    for (const auto& process : holder.book.processes) {
      if (!is_meant(holder, process, target)) continue;
      const Bytes booked = process.held[holder.account], held = away ? Bytes{0} : booked;
      const auto driver = by_driver(devices, holder.entry().device, process.identity.pid);
      const auto parts = away ? std::vector<Part>{} : parts_of(process, holder.account, driver, counted);
      rows.push_back({{"pid", process.identity.pid},
                      {"command", process.command},
                      {"workload", holder.book.name},
                      {"device", holder.entry().device_name},
                      {"held_bytes", held.count()},
                      {"suspended_bytes", (booked - held).count()},
                      {"limit_bytes", holder.entry().limit.count()},
                      {"parts", as_json(parts)}});
      if (session.format() == Format::kJson) continue;
      const std::string who =
          fmt::format("{} (pid {}, workload {})", process.command, process.identity.pid, holder.book.name);
      if (away) {
        fmt::print("{} is suspended: its {} of {} are in host memory until it works again.\n", who,
                   session.size(booked), holder.entry().device_name);
        continue;
      }
      fmt::print("{} on {} - where {} are\n", who, holder.entry().device_name, session.size(driver ? *driver : held));
      any_table = true;
      print_parts(session, parts, driver,
                  fmt::format("limit counts {} of {} (account = {})", session.size(held),
                              session.size(holder.entry().limit), counted ? "device" : "heap"));
    }
  }
  if (session.format() == Format::kJson)
    session.print_json("explain", rows);
  else if (any_table)
    print_other_numbers();
  return 0;
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
  if (!meant.empty()) return explain_processes(session, meant, suspended_runs(*daemon), devices, target);
  if (*daemon) {  // somebody else's is in no book that this user can read
    const auto others = (*daemon)->get(fmt::format("/api/v1/workloads/{}/explain", percent_encoded(target)));
    if (!others && others.error().id == "E1502") return tl::unexpected(others.error());
  }
  for (const auto& device : devices) {
    for (const auto& process : ungoverned(device, all)) {
      if (std::to_string(process.pid) != target || !is_ungoverned(*daemon, process.pid)) continue;
      return fail(
          "E1807",
          fmt::format("pid {} ({}) is not governed: it holds {} on GPU {} and nothing more is known.", process.pid,
                      process.command, session.size(process.held, "the driver does not say"), device.index),
          "Start it through ration: ration run --limit SIZE -- …", 3);
    }
  }
  auto of_tenant = explain_tenant(session, *daemon, target);
  if (of_tenant || of_tenant.error().id != "E1801") return of_tenant;
  return fail("E1801", fmt::format("no running workload, process or tenant '{}' of yours holds GPU memory.", target),
              "ration ps", 3);
}

}  // namespace ration::cli
