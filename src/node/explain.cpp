#include "node/explain.hpp"

#include <fmt/format.h>

namespace ration::node {
namespace {

using nlohmann::json;

json row(const std::string& id, const std::string& label, const std::optional<Bytes>& bytes,
         const std::string& source) {
  json entry{{"id", id}, {"label", label}};
  if (bytes) {
    entry["bytes"] = bytes->count();
    entry["source"] = source;
  } else {
    entry["bytes"] = nullptr;
    entry["bytes_na"] = source;
  }
  return entry;
}

}  // namespace

json explain_account(const AccountView& account) {
  std::optional<Bytes> driver = Bytes{0};
  Bytes used;
  for (const ProcessView& process : account.processes) {
    used += process.used;
    driver = driver && process.driver_used ? std::optional(*driver + *process.driver_used) : std::nullopt;
  }
  const Bytes special = account.context + account.pooled;
  json rows = json::array();
  rows.push_back(row("allocated", "allocated by the program", used - std::min(used, special),
                     "book: tensors, and what its framework caches"));
  rows.push_back(row("pooled", "reserved by the driver's pools", account.pooled, "book"));
  rows.push_back(row("context", "CUDA context", account.context, "book, measured when it was made"));
  rows.push_back(row("framework_free", "of these, free inside the framework", std::nullopt,
                     "only the framework knows: torch.cuda.memory_reserved - memory_allocated"));
  if (driver)
    rows.push_back(
        row("unexplained", "not explained (code, driver)", *driver - std::min(*driver, used), "driver minus book"));
  else
    rows.push_back(row("unexplained", "not explained (code, driver)", std::nullopt,
                       "the driver does not attribute memory to these processes"));
  json answer{{"workload", account.workload},
              {"used_bytes", account.used.count()},
              {"limit_bytes", account.limit.count()},
              {"rows", rows}};
  answer["gpu"] = account.gpu ? json(*account.gpu) : json(nullptr);
  answer["driver_bytes"] = driver ? json(driver->count()) : json(nullptr);
  if (!driver) answer["driver_bytes_na"] = "the driver does not attribute memory to these processes";
  return answer;
}

json explain_device(const Snapshot& snapshot, const DeviceView& device, const Viewer& viewer) {
  json rows = json::array();
  for (const AccountView& account : snapshot.accounts) {
    if (account.gpu != device.device.index) continue;
    rows.push_back(row(account.workload, account.tenant + "/" + account.workload, account.used, "book"));
  }
  for (const UngovernedView& view : snapshot.ungoverned) {
    if (view.gpu != device.device.index) continue;
    rows.push_back(row(fmt::format("pid-{}", view.process.pid),
                       fmt::format("not governed: pid {} {}", view.process.pid,
                                   viewer.is_operator ? view.process.command : view.process.user),
                       view.process.driver_used, view.process.driver_used ? "driver" : "the driver does not say"));
  }
  rows.push_back(row("orphaned", "in use, and of no process", device.orphaned,
                     device.orphaned ? "driver minus its processes" : "the driver does not say"));
  rows.push_back(
      row("unexplained", "driver's own, and not explained", device.unexplained, "driver minus the rows above"));
  rows.push_back(row("free", "free", device.device.free, "driver"));
  return {{"gpu", device.device.index},
          {"name", device.device.name},
          {"total_bytes", device.device.total.count()},
          {"used_bytes", device.used().count()},
          {"rows", rows}};
}

}  // namespace ration::node
