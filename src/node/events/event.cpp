#include "node/events/event.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "admission/denials.hpp"
#include "base/message_json.hpp"
#include "node/events/event_text.hpp"

namespace ration::node {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<EventType, const char*>, 25> kNames{{
    {EventType::kAlert, "alert"},
    {EventType::kConfig, "config"},
    {EventType::kDaemon, "daemon"},
    {EventType::kDenied, "denied"},
    {EventType::kDequeued, "dequeued"},
    {EventType::kEnded, "ended"},
    {EventType::kGap, "gap"},
    {EventType::kGranted, "granted"},
    {EventType::kGuardLost, "guard_lost"},
    {EventType::kIdle, "idle"},
    {EventType::kOrphaned, "orphaned"},
    {EventType::kQueued, "queued"},
    {EventType::kRebalanced, "rebalanced"},
    {EventType::kResized, "resized"},
    {EventType::kResumed, "resumed"},
    {EventType::kResuming, "resuming"},
    {EventType::kShrinking, "shrinking"},
    {EventType::kStarted, "started"},
    {EventType::kSuspendFailed, "suspend_failed"},
    {EventType::kSuspended, "suspended"},
    {EventType::kSuspending, "suspending"},
    {EventType::kTrimmed, "trimmed"},
    {EventType::kUngoverned, "ungoverned"},
    {EventType::kViolation, "violation"},
    {EventType::kWaited, "waited"},
}};

constexpr bool in_order() {
  for (std::size_t place = 0; place < kNames.size(); ++place)
    if (static_cast<std::size_t>(kNames[place].first) != place) return false;
  return true;
}
static_assert(in_order());  // name_of() relies on this order

json why_of(const DeniedRequest& denied, const std::string& fix) {
  json why{{"reason", admission::name_of(denied.reason)},
           {"fix", fix},
           {"function", denied.function},
           {"used_bytes", denied.used.count()},
           {"limit_bytes", denied.limit.count()},
           {"device_free_bytes", denied.device_free ? json(denied.device_free->count()) : json()},
           {"waited_seconds", static_cast<double>(denied.waited_ns) / 1e9}};
  put_message(why, "because", denied.because);
  put_message(why, "not_because", denied.not_because);
  return why;
}

}  // namespace

const char* name_of(EventType type) { return kNames[static_cast<std::size_t>(type)].second; }

std::vector<std::string> event_type_names() {
  std::vector<std::string> names;
  for (const auto& [type, name] : kNames) names.emplace_back(name);
  return names;
}

std::optional<EventType> event_type(std::string_view name) {
  const auto found = std::find_if(kNames.begin(), kNames.end(), [&](const auto& each) { return each.second == name; });
  return found == kNames.end() ? std::nullopt : std::optional(found->first);
}

history::Event to_record(const Event& event) {
  const std::string fix = addressed_fix(event.fix, event.fix_is_operators);
  json why = event.denied ? why_of(*event.denied, fix) : json::object();
  if (event.fix_is_operators) why["operators_fix"] = event.fix;
  if (!event.lease.empty()) why["lease"] = event.lease;
  if (event.of_schedule) why["of_schedule"] = true;
  history::Event record;
  record.time = event.time, record.type = name_of(event.type);
  record.workload = event.workload, record.tenant = event.tenant, record.user = event.user;
  record.gpu = event.gpu, record.pid = event.pid, record.bytes = event.bytes;
  if (event.denied) record.denial = event.denied->id;
  record.by = event.by, record.fix = fix;
  record.text = event.text, record.message = event.text.json();
  record.old_value = event.old_value, record.new_value = event.new_value;
  record.count = event.count, record.first_time = event.first_time;
  if (!why.empty()) record.why = why.dump(-1, ' ', false, json::error_handler_t::replace);
  return record;
}

RecordedFacts facts_of(const history::Event& event) {
  const json why = json::parse(event.why, nullptr, false);
  if (!why.is_object()) return {};
  const auto text = [&](const char* field) {
    const auto found = why.find(field);
    return found != why.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  return {text("lease"), why.contains("of_schedule"), text("operators_fix")};
}

}  // namespace ration::node
