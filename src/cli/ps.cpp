// `ration ps`: who uses what, once. One line a device, then the workloads.
#include <fmt/format.h>

#include "cli/holders.hpp"
#include "cli/verbs.hpp"

namespace ration::cli {
namespace {

std::string device_line(const Session& session, const policy::Device& device, const std::vector<Holder>& all) {
  std::string line = fmt::format("[{}] {}", device.index, device.name);
  if (device.temperature) line += fmt::format("  {}°C", *device.temperature);
  if (device.utilisation) line += fmt::format("  {}%", *device.utilisation);
  line += fmt::format("  {} of {} used", session.size(device.total - device.free), session.size(device.total));
  for (const Holder& holder : all) {
    if (holder.entry().device == device.bytes)
      line += fmt::format("  {} {}{}", holder.book.name, session.size(holder.entry().used), holder.full() ? "!" : "");
  }
  Bytes rest;
  for (const Ungoverned& process : ungoverned(device, all)) rest += process.held.value_or(Bytes{0});
  if (rest > Bytes{0}) line += fmt::format("  ungoverned {}", session.size(rest));
  return line;
}

std::string remark(const Session& session, const Holder& holder) {
  if (holder.shrinking()) return session.painted("shrinking", 33);
  if (holder.book.waiting > 0) return session.painted("waiting", 33);
  if (holder.full()) return session.painted("FULL", 31);
  if (holder.entry().denials == 0) return "";
  return fmt::format("{} denied - ration why d-{}-{}", holder.entry().denials, holder.book.run_number,
                     holder.book.denial_count);
}

nlohmann::json device_json(const policy::Device& device) {
  return {{"gpu", device.index},
          {"uuid", device.uuid},
          {"name", device.name},
          {"total_bytes", device.total.count()},
          {"free_bytes", device.free.count()}};
}

nlohmann::json workload_json(const Holder& holder, int gpu) {
  const auto& account = holder.entry();
  auto processes = nlohmann::json::array();
  for (const auto& process : holder.book.processes) {
    processes.push_back({{"pid", process.identity.pid},
                         {"command", process.command},
                         {"used_bytes", process.held[holder.account].count()}});
  }
  nlohmann::json row{{"workload", holder.book.name},
                     {"tenant", holder.book.tenant},
                     {"run", holder.book.run_number},
                     {"device", account.device_name},
                     {"used_bytes", account.used.count()},
                     {"limit_bytes", account.limit.count()},
                     {"guarantee_bytes", account.guarantee.count()},
                     {"peak_bytes", account.peak.count()},
                     {"denials", account.denials},
                     {"shrinking", holder.shrinking()},
                     {"governed", true},
                     {"enforced_by", "shim"},
                     {"slice", holder.book.slice},
                     {"labels", holder.book.labels},
                     {"processes", processes}};
  if (gpu >= 0)
    row["gpu"] = gpu;
  else
    row.update({{"gpu", nullptr}, {"gpu_na", "the device is not on this machine"}});
  return row;
}

nlohmann::json ungoverned_json(const Ungoverned& process, int gpu) {
  nlohmann::json row{{"workload", nullptr},
                     {"workload_na", "not started through ration"},
                     {"gpu", gpu},
                     {"governed", false},
                     {"processes", {{{"pid", process.pid}, {"command", process.command}}}}};
  if (process.held)
    row["used_bytes"] = process.held->count();
  else
    row.update({{"used_bytes", nullptr}, {"used_bytes_na", "the driver does not say"}});
  return row;
}

std::string pids(const Holder& holder) {
  if (holder.book.processes.empty()) return "-";
  std::string text = std::to_string(holder.book.processes.front().identity.pid);
  return holder.book.processes.size() == 1 ? text : fmt::format("{} +{}", text, holder.book.processes.size() - 1);
}

}  // namespace

Result<int> ps(const Session& session, const std::string& gpu) {
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  const auto all = holders(*store);
  const auto machine = session.machine();
  auto warnings = nlohmann::json::array();
  std::vector<policy::Device> devices;
  if (machine) {
    devices = machine->devices;
    if (!gpu.empty()) {
      const auto chosen = policy::choose_devices(devices, gpu);
      if (!chosen) return tl::unexpected(chosen.error());
      devices = *chosen;
    }
  } else {
    if (!gpu.empty()) return tl::unexpected(machine.error());
    warnings.push_back({{"id", machine.error().id}, {"message", machine.error().what}, {"fix", machine.error().fix}});
  }
  const auto index_of = [&](const Holder& holder) {
    for (const auto& device : devices) {
      if (device.bytes == holder.entry().device) return device.index;
    }
    return -1;
  };

  if (session.format() == Format::kJson) {
    auto data = nlohmann::json::array(), shown = nlohmann::json::array();
    for (const Holder& holder : all) {
      if (gpu.empty() || index_of(holder) >= 0) data.push_back(workload_json(holder, index_of(holder)));
    }
    for (const auto& device : devices) {
      shown.push_back(device_json(device));
      for (const auto& process : ungoverned(device, all)) data.push_back(ungoverned_json(process, device.index));
    }
    session.print_json("ps", data, {{"devices", shown}, {"warnings", warnings}});
    return 0;
  }
  if (session.format() == Format::kText) {
    for (const auto& device : devices) fmt::print("{}\n", device_line(session, device, all));
  }
  Table table({{"WORKLOAD", "workload"},
               {"PID", "pid"},
               {"GPU", "gpu"},
               {"USED", "used_bytes", true},
               {"LIMIT", "limit_bytes", true},
               {"PEAK", "peak_bytes", true},
               {"DENIED", "denials", true},
               {"GOVERNED", "governed"},
               {"", "remark"}});
  for (const Holder& holder : all) {
    const int index = index_of(holder);
    if (!gpu.empty() && index < 0) continue;
    const auto& account = holder.entry();
    table.add({holder.book.tenant + "/" + holder.book.name, pids(holder), index < 0 ? "n/a" : std::to_string(index),
               session.size(account.used), session.size(account.limit), session.size(account.peak),
               std::to_string(account.denials), "yes (shim)", remark(session, holder)});
  }
  for (const auto& device : devices) {
    for (const auto& process : ungoverned(device, all)) {
      table.add({"?/" + process.command.substr(0, process.command.find(' ')), std::to_string(process.pid),
                 std::to_string(device.index), session.size(process.held, "not told"), "-", "-", "-", "NO",
                 "not started through ration"});
    }
  }
  if (!table.empty() || session.format() == Format::kCsv)
    table.print(session.format());
  else
    fmt::print("nothing runs under a limit.  ration run --limit 4GiB -- python train.py\n");
  return 0;
}

}  // namespace ration::cli
