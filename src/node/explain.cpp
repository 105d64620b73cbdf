#include "node/explain.hpp"

#include <fmt/format.h>

#include "base/units.hpp"

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

constexpr const char* kNotAttributed = "the driver does not attribute memory to these processes";

// What the processes of these accounts, all of one device, hold: into the fields of `answer`.
void add_rows(const std::vector<const AccountView*>& accounts, json& answer) {
  std::optional<Bytes> driver = Bytes{0};
  Bytes by_processes, used, away, context, pooled;
  bool contexts_counted = true;
  for (const AccountView* account : accounts) {
    used += account->used, away += account->away;
    context += account->context, pooled += account->pooled;
    contexts_counted = contexts_counted && account->contexts_counted;
    if (account->suspended) continue;  // the driver does not list its processes, nor does it hold anything for them
    for (const ProcessView& process : account->processes) {
      by_processes += process.used;
      driver = driver && process.driver_used ? std::optional(*driver + *process.driver_used) : std::nullopt;
    }
  }
  json rows = json::array();
  rows.push_back(row("allocated", "allocated by the program", by_processes - std::min(by_processes, context + pooled),
                     "book: tensors, and what its framework caches"));
  rows.push_back(row("pooled", "reserved by the driver's pools", pooled, "book"));
  rows.push_back(
      row("context", "CUDA context", contexts_counted ? std::optional(context) : std::nullopt,
          contexts_counted ? "book, measured when it was made" : "account = heap: contexts are not entered"));
  rows.push_back(row("framework_free", "of these, free inside the framework", std::nullopt,
                     "only the framework knows: torch.cuda.memory_reserved - memory_allocated"));
  rows.push_back(row("unexplained", "not explained (code, driver)",
                     driver ? std::optional(*driver - std::min(*driver, by_processes)) : std::nullopt,
                     driver ? "driver minus book" : kNotAttributed));
  answer["used_bytes"] = used.count();
  answer["suspended_bytes"] = away.count();
  answer["driver_bytes"] = driver ? json(driver->count()) : json(nullptr);
  if (!driver) answer["driver_bytes_na"] = kNotAttributed;
  answer["rows"] = std::move(rows);
}

}  // namespace

json explain_account(const AccountView& account) {
  json answer{{"workload", account.workload}, {"limit_bytes", account.limit.count()}};
  answer["gpu"] = account.gpu ? json(*account.gpu) : json(nullptr);
  add_rows({&account}, answer);
  return answer;
}

json explain_tenant(const Snapshot& snapshot, const std::string& tenant) {
  json devices = json::array();
  for (const DeviceView& device : snapshot.devices) {
    std::vector<const AccountView*> accounts;
    json workloads = json::array();
    for (const AccountView& account : snapshot.accounts) {
      if (account.tenant != tenant || account.gpu != device.device.index) continue;
      accounts.push_back(&account);
      workloads.push_back({{"workload", account.workload},
                           {"user", account.user},
                           {"used_bytes", account.used.count()},
                           {"suspended_bytes", account.away.count()},
                           {"limit_bytes", account.limit.count()}});
    }
    if (accounts.empty()) continue;
    json answer{{"gpu", device.device.index}, {"device", device.device.name}, {"workloads", std::move(workloads)}};
    add_rows(accounts, answer);
    devices.push_back(std::move(answer));
  }
  return {{"tenant", tenant}, {"devices", std::move(devices)}};
}

json explain_device(const Snapshot& snapshot, const DeviceView& device, const Viewer& viewer) {
  json rows = json::array();
  for (const AccountView& account : snapshot.accounts) {
    if (account.gpu != device.device.index) continue;
    rows.push_back(row(account.workload, account.tenant + "/" + account.workload, account.used,
                       "book, limit " + format_size(account.limit)));
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
