#include "node/snapshot/explain.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/command.hpp"
#include "base/message_json.hpp"
#include "base/say.hpp"
#include "base/units.hpp"

namespace ration::node {

constinit const FixedMessage kNoneAttributed = fixed<"unknown.none_attributed">();

namespace {

using nlohmann::json;

constexpr FixedMessage kUndetermined = fixed<"unknown.driver_silent">(),
                       kDeviceElsewhere = fixed<"unknown.device_elsewhere">(), kNoProc = fixed<"unknown.no_proc">();

json row(const std::string& id, const Message& label, const std::optional<Bytes>& bytes, const Message& source) {
  json entry{{"id", id}, {"bytes", bytes ? json(bytes->count()) : json(nullptr)}};
  put_message(entry, "label", label);
  put_message(entry, bytes ? "source" : "bytes_na", source);
  return entry;
}

void put_driver(const Holding& holding, json& answer) {
  answer["driver_bytes"] = holding.driver ? json(holding.driver->count()) : json(nullptr);
  if (!holding.driver) put_message(answer, "driver_bytes_na", holding.unknown_reason);
}

// Adds up the bytes that the processes of these accounts hold, and writes the sums into `answer`. The accounts are on
// one device.
void add_rows(const std::vector<const AccountView*>& accounts, json& answer) {
  Holding holding;
  holding.driver = Bytes{0};
  Bytes used, away;
  for (const AccountView* account : accounts) {
    used += account->used, away += account->suspended_bytes;
    holding.context += account->context, holding.pooled += account->pooled, holding.managed += account->managed;
    holding.unrequested += account->unrequested;
    holding.contexts_counted = holding.contexts_counted && account->contexts_counted;
    if (account->suspended) continue;  // the driver does not list suspended processes
    for (const ProcessView& process : account->processes) {
      holding.held += process.used;
      if (process.unknown_reason == machine::kNotAttributedInContainer) holding.unknown_reason = process.unknown_reason;
      holding.driver =
          holding.driver && process.driver_used ? std::optional(*holding.driver + *process.driver_used) : std::nullopt;
    }
  }
  answer["used_bytes"] = used.count();
  answer["suspended_bytes"] = away.count();
  put_driver(holding, answer);
  answer["rows"] = rows_of(holding);
}

// Explains one process of an account. While the account is suspended, the driver reports nothing about the process.
json part_of(const AccountView& account, const ProcessView& process) {
  Holding holding{process.used,
                  process.context,
                  process.pooled,
                  process.managed,
                  Bytes{0},
                  account.suspended ? std::optional(Bytes{0}) : process.driver_used,
                  account.contexts_counted};
  if (process.unknown_reason == machine::kNotAttributedInContainer) holding.unknown_reason = process.unknown_reason;
  json answer{{"pid", process.pid},
              {"command", process.command},
              {"used_bytes", process.used.count()},
              {"host_bytes", process.host.count()},
              {"shared_bytes", process.shared.count()}};
  put_driver(holding, answer);
  answer["rows"] = rows_of(holding);
  return answer;
}

Error not_yours(const std::string& what, const std::string& user) {
  return {"E1502", fmt::format("{} belongs to {}.", what, user), "Ask root or a member of group ration.", 5};
}

// Describes a process that is in no book: its user, origin and bytes, and the policy for it.
json ungoverned_json(const Snapshot& snapshot, const std::vector<const UngovernedView*>& views, const Viewer& viewer) {
  const UngovernedView& first = *views.front();
  json answer{{"pid", first.process.pid}, {"governed", false}};
  if (first.process.state == ProcessState::kUnknown)
    answer["governed"] = nullptr, put_message(answer, "governed_na", first.why());
  const auto enter = [&](const std::string& field, const std::string& value, const FixedMessage& reason) {
    answer[field] = value.empty() ? json(nullptr) : json(value);
    if (value.empty()) put_message(answer, field + "_na", reason);
  };
  enter("policy", first.policy != nullptr ? first.policy : "", kNoDaemon);
  enter("user", first.process.user, kNoProc);
  if (viewer.may_see(first))
    enter("command", first.process.command, kNoProc);
  else
    enter("command", "", kNotYours);
  enter("container", first.container, fixed<"unknown.no_container">());
  enter("origin", first.origin, fixed<"unknown.no_cgroup">());
  answer["devices"] = json::array();
  for (const UngovernedView* view : views) {
    json device{{"gpu", view->gpu}, {"used_bytes", nullptr}};
    for (const DeviceView& each : snapshot.devices)
      if (each.device.index == view->gpu) device["device"] = each.device.name;
    if (view->process.driver_used)
      device["used_bytes"] = view->process.driver_used->count();
    else
      put_message(device, "used_bytes_na", view->process.unknown_reason);
    answer["devices"].push_back(std::move(device));
  }
  return answer;
}

}  // namespace

json rows_of(const Holding& holding) {
  const Bytes held = holding.held, special = holding.context + holding.pooled + holding.managed;
  const Bytes in_driver = held - std::min(held, holding.managed) + holding.unrequested;
  const auto& driver = holding.driver;
  return {row("allocated", fixed<"memory.allocated">(), held - std::min(held, special), fixed<"source.book">()),
          row("pooled", fixed<"memory.pooled">(), holding.pooled, fixed<"source.book_pools">()),
          row("managed", fixed<"memory.managed">(), holding.managed, fixed<"source.book_managed">()),
          row("framework_free", fixed<"memory.framework_free">(), std::nullopt, fixed<"unknown.framework_only">()),
          row("context", fixed<"memory.context">(),
              holding.contexts_counted ? std::optional(holding.context) : std::nullopt,
              holding.contexts_counted ? fixed<"source.book_context">() : fixed<"unknown.contexts_left_out">()),
          row("unrequested", fixed<"memory.unrequested">(), holding.unrequested, fixed<"source.several_ticks">()),
          row("unexplained", fixed<"memory.unexplained">(),
              driver ? std::optional(*driver - std::min(*driver, in_driver)) : std::nullopt,
              driver ? fixed<"source.rest_of_processes">() : holding.unknown_reason)};
}

std::optional<Overrun> overrun_of(const AccountView& account) {
  if (account.used <= account.limit) return std::nullopt;
  return Overrun{account.used - account.limit,
                 account.limit,
                 account.pooled,
                 account.context,
                 account.used - std::min(account.used, account.pooled + account.context),
                 account.movable};
}

std::vector<std::string> sentences(const Overrun& overrun, const std::function<std::string(Bytes)>& size_text) {
  if (overrun.movable >= overrun.over)
    return {
        fmt::format("over its limit of {} by {}: its next request moves that much of its managed memory to the host",
                    size_text(overrun.limit), size_text(overrun.over))};
  std::vector<std::string> lines{
      fmt::format("over its limit of {} by {}: requests are denied until its use is below the limit",
                  size_text(overrun.limit), size_text(overrun.over))};
  if (overrun.pooled > Bytes{0})
    lines.push_back(
        fmt::format("could be freed: the unused part of the {} in the driver's pools", size_text(overrun.pooled)));
  lines.push_back(
      fmt::format("in use: {} allocated and {} in contexts, until the program frees them or ends; if the program has "
                  "ration's library, the library returns unused memory",
                  size_text(overrun.live), size_text(overrun.context)));
  return lines;
}

std::string suggested_fix(const Overrun& overrun, const OverLimitAccount& who) {
  const std::string trim = command({"trim", who.workload}) + "   or start it again";
  if (!who.held_back_by.empty()) return trim;
  const std::string enough = exact_size(round_up(overrun.over + overrun.limit, kGranule));
  return fmt::format("{}, or: {}", trim,
                     who.gpu ? command({"set", who.workload, "--limit", enough, "--gpu", std::to_string(*who.gpu)})
                             : command({"set", who.workload, "--limit", enough}));
}

json overrun_json(const Overrun& overrun, const OverLimitAccount& who) {
  const auto lines = sentences(overrun, [](Bytes bytes) { return format_size(bytes); });
  std::string text = fmt::format("{}", fmt::join(lines, "; "));
  if (!who.held_back_by.empty())
    text += fmt::format("; its limit in force is lower than the configured limit: {}", who.held_back_by);
  json answer{{"over_bytes", overrun.over.count()},       {"pooled_bytes", overrun.pooled.count()},
              {"context_bytes", overrun.context.count()}, {"live_bytes", overrun.live.count()},
              {"movable_bytes", overrun.movable.count()}, {"text", text},
              {"fix", suggested_fix(overrun, who)}};
  if (!who.held_back_by.empty()) put_message(answer, "held_back_by", who.held_back_by);
  return answer;
}

std::string whereabouts(const std::string& user, const std::string& container, const std::string& origin) {
  std::string text = user;
  for (const std::string& more : {container, origin})
    if (!more.empty()) text += (text.empty() ? "" : ", ") + more;
  return text;
}

json explain_account(const AccountView& account) {
  json answer{{"workload", account.workload},
              {"tenant", account.tenant},
              {"user", account.user},
              {"device", account.device},
              {"account", account.contexts_counted ? "device" : "heap"},
              {"limit_bytes", account.limit.count()},
              {"shared_bytes", account.shared.count()}};
  answer["gpu"] = account.gpu ? json(*account.gpu) : json(nullptr);
  if (!account.gpu) put_message(answer, "gpu_na", kDeviceElsewhere);
  add_rows({&account}, answer);
  if (account.host.counted) {
    answer["host_used_bytes"] = account.host.used.count();
    answer["host_limit_bytes"] = account.host.limit < kUnlimited ? json(account.host.limit.count()) : json(nullptr);
    answer["host_peak_bytes"] = account.host.peak.count();
  }
  if (const auto overrun = overrun_of(account))
    answer["shrinking"] = overrun_json(*overrun, {account.workload, account.gpu, account.held_back_by});
  answer["processes"] = json::array();
  for (const ProcessView& process : account.processes) answer["processes"].push_back(part_of(account, process));
  return answer;
}

Result<json> explain_workload(const Registry& registry, const Snapshot& snapshot, const std::string& name,
                              const Viewer& viewer) {
  RATION_TRY(const auto named, registry.named(name, viewer.user));
  const Workload& workload = *named;
  if (!viewer.may_see(workload.person)) return tl::unexpected(not_yours(workload.book.name, workload.user));
  json accounts = json::array();
  for (const AccountView& account : snapshot.accounts)
    if (account.path == workload.path) accounts.push_back(explain_account(account));
  return accounts;
}

Result<json> explain_process(const Snapshot& snapshot, const std::string& pid, const Viewer& viewer) {
  const auto is_meant = [&](const auto& process) { return std::to_string(process.pid) == pid; };
  json accounts = json::array();
  for (const AccountView& account : snapshot.accounts) {
    if (std::none_of(account.processes.begin(), account.processes.end(), is_meant)) continue;
    if (!viewer.may_see(account.owner)) return tl::unexpected(not_yours("pid " + pid, account.user));
    json explained = explain_account(account);
    auto& processes = explained["processes"].get_ref<json::array_t&>();
    std::erase_if(processes, [&](const json& process) { return process.at("pid").dump() != pid; });
    accounts.push_back(std::move(explained));
  }
  if (!accounts.empty()) {
    const json& first = accounts.front();
    const json& process = first.at("processes").front();
    return json{{"pid", process.at("pid")},
                {"governed", true},
                {"user", first.at("user")},
                {"command", process.at("command")},
                {"accounts", std::move(accounts)}};
  }
  std::vector<const UngovernedView*> ungoverned;
  for (const UngovernedView& view : snapshot.ungoverned)
    if (is_meant(view.process)) ungoverned.push_back(&view);
  if (ungoverned.empty())
    return fail("E1801", fmt::format("process {} holds no GPU memory here.", pid), "ration ps", 3);
  return ungoverned_json(snapshot, ungoverned, viewer);
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
                           {"suspended_bytes", account.suspended_bytes.count()},
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
    const Bytes trusted = account.trusted_usage();
    const auto said = trusted < account.used ? std::optional(account.used) : std::nullopt;
    rows.push_back(row(account.workload, account.tenant + "/" + account.workload, trusted,
                       say<"source.book_limit">("limit_bytes"_is(account.limit), "said_bytes"_is(said))));
  }
  for (const UngovernedView& view : snapshot.ungoverned) {
    if (view.gpu != device.device.index) continue;
    const Message source = view.process.driver_used ? fixed<"source.driver">() : view.process.unknown_reason;
    const std::string origin = whereabouts(viewer.may_see(view) ? view.process.user : "", view.container, view.origin);
    rows.push_back(row(
        fmt::format("pid-{}", view.process.pid),
        say<"memory.ungoverned">("pid"_is(view.process.pid),
                                 "whose"_is(viewer.may_see(view) ? view.process.command : view.process.user)),
        view.process.driver_used, origin.empty() ? source : say<"source.at">("source"_is(source), "place"_is(origin))));
  }
  rows.push_back(row("orphaned", fixed<"memory.orphaned">(), device.orphaned,
                     device.orphaned ? fixed<"source.not_of_processes">() : kUndetermined));
  rows.push_back(row("unexplained", fixed<"memory.of_driver">(), device.unexplained,
                     device.unexplained ? fixed<"source.rest">() : kUndetermined));
  rows.push_back(row("free", fixed<"memory.free">(), device.device.free,
                     device.device.free ? fixed<"source.driver">() : kUndetermined));
  json document{{"gpu", device.device.index},
                {"name", device.device.name},
                {"total_bytes", device.device.total.count()},
                {"used_bytes", nullptr},
                {"kept_bytes", (device.device.room() - device.available).count()},
                {"kept_for", json::array()},
                {"rows", rows}};
  for (const auto& [tenant, bytes] : device.kept_for)
    document["kept_for"].push_back({{"tenant", tenant}, {"bytes", bytes.count()}});
  if (const auto used = device.used())
    document["used_bytes"] = used->count();
  else
    put_message(document, "used_bytes_na", kUndetermined);
  return document;
}

}  // namespace ration::node
