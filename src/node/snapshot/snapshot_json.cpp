#include "node/snapshot/snapshot_json.hpp"

#include <fmt/format.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>

#include "base/message_json.hpp"
#include "base/say.hpp"
#include "base/time.hpp"

namespace ration::node {

constinit const FixedMessage kNotYours = fixed<"unknown.not_yours">();
constinit const FixedMessage kNoDaemon = fixed<"unknown.no_daemon">();

namespace {

constexpr FixedMessage kDriverSilent = fixed<"unknown.driver_silent">();

using nlohmann::json;
using Writer = rapidjson::Writer<rapidjson::StringBuffer>;

const char* enforcer(bool driver_too) { return driver_too ? "driver and shim" : "shim"; }

template <typename Value>
void put(json& row, const std::string& field, const std::optional<Value>& value, const Message& reason) {
  if (value) {
    row[field] = *value;
  } else {
    row[field] = nullptr;
    put_message(row, field + "_na", reason);
  }
}

void put(json& row, const std::string& field, const std::optional<Bytes>& bytes, const Message& reason) {
  put(row, field, bytes ? std::optional(bytes->count()) : std::nullopt, reason);
}

const char* word_for(ProcessState state) {
  switch (state) {
    case ProcessState::kGoverned:
      return "managed";
    case ProcessState::kViolator:
      return "violator";
    case ProcessState::kUngoverned:
      return "unmanaged";
    case ProcessState::kUnknown:
      return "unknown";
  }
  return "unknown";
}

const char* state_of(const AccountView& account) {
  if (account.ended) return "ended";
  if (account.suspended) return account.resuming ? "resuming" : "suspended";
  if (account.shrinking()) return "shrinking";
  if (account.waiting) return "waiting";
  return "running";
}

/// Writes a row as one JSON object. A thousand rows are written at every tick for every client, and a tree of JSON
/// values would take ten times as long.
class Row {
 public:
  explicit Row(Writer& out) : out_(out) { out_.StartObject(); }
  ~Row() { out_.EndObject(); }
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;

  Row& text(const char* name, const std::string& value) {
    out_.Key(name);
    write(value);
    return *this;
  }
  Row& number(const char* name, std::uint64_t value) {
    out_.Key(name);
    out_.Uint64(value);
    return *this;
  }
  Row& bytes(const char* name, Bytes value) { return number(name, value.count()); }
  Row& bytes_or_null(const char* name, const std::optional<Bytes>& value) {
    if (value) return bytes(name, *value);
    out_.Key(name);
    out_.Null();
    return *this;
  }
  Row& flag(const char* name, bool value) {
    out_.Key(name);
    out_.Bool(value);
    return *this;
  }
  Row& said(const char* name, const Message& message) {
    text(name, message);
    if (message.id().empty()) return *this;
    const std::string beside = message.json();
    out_.Key((std::string(name) + "_message").c_str());
    out_.RawValue(beside.data(), beside.size(), rapidjson::kObjectType);
    return *this;
  }
  Row& said(const char* name, const FixedMessage& message) {
    text(name, message.text());
    const std::string beside = fmt::format(R"({{"message_id":"{}","arguments":{{}}}})", message.id());
    out_.Key((std::string(name) + "_message").c_str());
    out_.RawValue(beside.data(), beside.size(), rapidjson::kObjectType);
    return *this;
  }
  template <typename Reason>
  Row& unknown(const char* name, const Reason& reason) {
    out_.Key(name);
    out_.Null();
    return said((std::string(name) + "_na").c_str(), reason);
  }
  Row& bytes(const char* name, const std::optional<Bytes>& value, const FixedMessage& reason) {
    return value ? bytes(name, *value) : unknown(name, reason);
  }
  Row& text(const char* name, const std::string& value, const FixedMessage& reason) {
    return value.empty() ? unknown(name, reason) : text(name, value);
  }
  Row& texts(const char* name, const std::vector<std::string>& values) {
    array(name);
    for (const std::string& value : values) write(value);
    out_.EndArray();
    return *this;
  }
  Writer& array(const char* name) {
    out_.Key(name);
    out_.StartArray();
    return out_;
  }

 private:
  // A text that a tenant wrote may be invalid UTF-8.
  void write(const std::string& value) {
    const bool plain =
        std::all_of(value.begin(), value.end(), [](char letter) { return letter >= 0x20 && letter < 0x7f; });
    if (plain) {
      out_.String(value.data(), static_cast<rapidjson::SizeType>(value.size()));
      return;
    }
    const std::string safe = json(value).dump(-1, ' ', false, json::error_handler_t::replace);
    out_.RawValue(safe.data(), safe.size(), rapidjson::kStringType);
  }

  Writer& out_;
};

void write_process(Writer& out, const ProcessView& process) {
  Row(out)
      .number("pid", static_cast<std::uint64_t>(process.pid))
      .text("user", process.user)
      .text("command", process.command)
      .text("state", word_for(process.state))
      .bytes("used_bytes", process.used)
      .bytes("host_bytes", process.host)
      .bytes("driver_used_bytes", process.driver_used, process.unknown_reason);
}

void write_host(Row& row, const HostView& host) {
  if (!host.counted) return;
  row.bytes("host_used_bytes", host.used)
      .bytes_or_null("host_limit_bytes", host.limit < kUnlimited ? std::optional(host.limit) : std::nullopt)
      .bytes("host_peak_bytes", host.peak)
      .number("host_denials", host.denials);
}

void write_account(Writer& out, const AccountView& account, const Viewer& viewer, std::size_t most_processes) {
  Row row(out);
  row.text("workload", account.workload)
      .text("tenant", account.tenant)
      .text("user", account.user)
      .number("run", account.run)
      .text("device", account.device)
      .text("state", state_of(account))
      .flag("governed", true)
      .text("enforced_by", enforcer(account.driver_enforced))
      .text("slice", account.slice)
      .text("started", utc(account.started_ns))
      .bytes("used_bytes", account.used)
      .bytes("limit_bytes", account.limit)
      .bytes("configured_limit_bytes", account.configured_limit)
      .bytes("guarantee_bytes", account.guarantee)
      .bytes("peak_bytes", account.peak)
      .bytes("context_bytes", account.context)
      .bytes("pooled_bytes", account.pooled)
      .bytes("suspended_bytes", account.suspended_bytes)
      .number("denials", account.denials)
      .number("limit_changes", account.limit_changes)
      .flag("shrinking", account.shrinking());
  write_host(row, account.host);
  if (account.idle_ns)
    row.number("idle_seconds", *account.idle_ns / 1'000'000'000U);
  else
    row.unknown("idle_seconds", fixed<"unknown.not_watched">());
  if (account.gpu)
    row.number("gpu", static_cast<std::uint64_t>(*account.gpu)).text("uuid", account.uuid);
  else
    row.unknown("gpu", fixed<"unknown.device_elsewhere">());
  if (!account.simulation.empty()) row.text("simulation", account.simulation);
  if (account.denials + account.host.denials > 0)
    row.text("last_denial", fmt::format("d-{}-{}", account.run, account.last_denial));
  if (!account.altered.empty()) row.said("book_altered", account.altered);
  if (!account.held_back_by.empty()) row.said("held_back_by", account.held_back_by);
  if (account.unlisted_count > 0)
    row.number("unlisted_function_count", account.unlisted_count).texts("unlisted_functions", account.unlisted);
  if (!account.launchers.empty()) row.texts("launchers", account.launchers);
  if (!viewer.may_see(account.owner)) {
    for (const char* field : {"labels", "command", "process_count", "processes"}) row.unknown(field, kNotYours);
    return;
  }
  row.text("labels", account.labels).text("command", account.command).number("process_count", account.processes.size());
  row.array("processes");
  for (std::size_t i = 0; i < std::min(account.processes.size(), most_processes); ++i)
    write_process(out, account.processes[i]);
  out.EndArray();
}

void write_ungoverned(Writer& out, const UngovernedView& view, const Viewer& viewer) {
  Row row(out);
  row.unknown("workload", view.why()).number("gpu", static_cast<std::uint64_t>(view.gpu));
  if (view.process.state == ProcessState::kUnknown)
    row.unknown("governed", view.why());
  else
    row.flag("governed", false);
  row.text("user", view.process.user)
      .bytes("used_bytes", view.process.driver_used, view.process.unknown_reason)
      .text("container", view.container, fixed<"unknown.no_container">())
      .text("origin", view.origin, fixed<"unknown.no_cgroup">())
      .number("process_count", 1);
  if (view.policy != nullptr)
    row.text("policy", view.policy);
  else
    row.unknown("policy", kNoDaemon);
  row.array("processes");
  {
    Row process(out);
    process.number("pid", static_cast<std::uint64_t>(view.process.pid)).text("state", word_for(view.process.state));
    if (viewer.may_see(view))
      process.text("command", view.process.command);
    else
      process.unknown("command", kNotYours);
  }
  out.EndArray();
}

template <typename WriteRows>
std::string array_text(const WriteRows& write_rows) {
  rapidjson::StringBuffer text;
  Writer out(text);
  out.StartArray();
  write_rows(out);
  out.EndArray();
  return {text.GetString(), text.GetSize()};
}

}  // namespace

json device_json(const DeviceView& view) {
  json row{{"gpu", view.device.index},
           {"uuid", view.device.uuid},
           {"name", view.device.name},
           {"enforced_by", enforcer(view.device.cgroup_limits)},
           {"numa_nodes", view.device.numa_nodes},
           {"total_bytes", view.device.total.count()},
           {"promised_bytes", view.promised.count()},
           {"keep_free_bytes", view.keep_free.count()},
           {"available_bytes", view.available.count()},
           {"governed_bytes", view.governed.count()}};
  if (const auto& mig = view.device.mig)
    row["mig"] = {{"gpu", mig->gpu}, {"uuid", mig->gpu_uuid}, {"instance", mig->number}, {"profile", mig->profile}};
  put(row, "compute_capability", view.device.compute_capability, kDriverSilent);
  put(row, "used_bytes", view.used(), kDriverSilent);
  put(row, "free_bytes", view.device.free, kDriverSilent);
  put(row, "utilisation_percent", view.device.utilisation, kDriverSilent);
  put(row, "temperature_celsius", view.device.temperature, kDriverSilent);
  row["time_to_full_seconds"] = view.seconds_to_full ? json(*view.seconds_to_full) : json(nullptr);
  if (!view.seconds_to_full) put_message(row, "time_to_full_seconds_na", fixed<"unknown.no_growth">());
  const std::optional<FixedMessage> unknown =
      view.device.processes ? view.unknown_reason : fixed<"unknown.no_management_library">();
  const FixedMessage untold = unknown.value_or(kDriverSilent);
  const bool undecided = view.undecided > Bytes{0};
  put(row, "ungoverned_bytes", unknown || undecided ? std::nullopt : std::optional(view.ungoverned),
      unknown || !undecided ? untold : fixed<"process.of_another_user">());
  put(row, "orphaned_bytes", view.orphaned, fixed<"unknown.not_accounted">());
  put(row, "unexplained_bytes", unknown ? std::nullopt : view.unexplained, untold);
  return row;
}

std::string rows_text(const Snapshot& snapshot, const Viewer& viewer, std::size_t most_processes) {
  return array_text([&](Writer& out) {
    for (const AccountView& account : snapshot.accounts)
      if (!viewer.totals_only || viewer.own_books.contains(account.path))
        write_account(out, account, viewer, most_processes);
    if (viewer.totals_only) return;
    for (const UngovernedView& process : snapshot.ungoverned) write_ungoverned(out, process, viewer);
  });
}

std::string rows_text_of(const std::string& path, const Snapshot& snapshot, const Viewer& viewer) {
  return array_text([&](Writer& out) {
    for (const AccountView& account : snapshot.accounts)
      if (account.path == path) write_account(out, account, viewer, kAllProcesses);
  });
}

}  // namespace ration::node
