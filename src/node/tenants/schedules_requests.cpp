#include "node/tenants/schedules_requests.hpp"

#include <fmt/format.h>

namespace ration::node {
namespace {

std::string text_of(const config::Hours& hours) {
  return fmt::format("{:02}:{:02}-{:02}:{:02}", hours.from / 60, hours.from % 60, hours.to / 60, hours.to % 60);
}

std::string text_of(const config::Days& days) {
  constexpr const char* kNames[] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
  if (days.all()) return "mon-sun";
  std::string text;
  for (std::size_t day = 0; day < 7; ++day)
    if (days.test((day + 1) % 7)) text += fmt::format("{}{}", text.empty() ? "" : ",", kNames[day]);
  return text;
}

ScheduleRow row_of(const config::Schedule& schedule, const config::LocalTime& now) {
  ScheduleRow row;
  row.when = text_of(schedule.when.value);
  row.days = text_of(schedule.days.value);
  row.from = schedule.when.origin.text();
  row.in_force = config::holds_at(schedule, now);
  for (const auto& [tenant, limit] : schedule.set) row.set[tenant] = limit.value.text;
  return row;
}

Result<void> may_schedule(const Caller& caller) {
  if (caller.is_operator) return {};
  return fail("E1502", "you may not change schedules.", "Ask root or a member of group ration.", 5);
}

std::vector<ScheduleRow> rows_for(const Moment& moment, const std::vector<ScheduleRequest>& requests) {
  const config::LocalTime now = local_time(moment.time_of_day_ns);
  std::vector<ScheduleRow> rows;
  for (const ScheduleRequest& request : requests) {
    const auto schedule = to_schedule(request, moment.configuration);
    ScheduleRow row =
        schedule ? row_of(*schedule, now) : ScheduleRow{{}, request.when, request.days, request.set, {}, {}, false};
    row.name = request.name;
    row.from = request.by;
    if (!schedule) row.inactive = schedule.error().what;
    rows.push_back(std::move(row));
  }
  for (const config::Schedule& schedule : moment.configuration.schedules) rows.push_back(row_of(schedule, now));
  return rows;
}

}  // namespace

std::vector<ScheduleRow> schedule_rows(const Moment& moment, const Schedules& schedules) {
  return rows_for(moment, schedules.all());
}

namespace {

/// Checks on each GPU of this node that no limit is below the tenant's guarantee: a share can be enough on a larger
/// GPU. Fails with E1305.
Result<void> check_on_devices(const Moment& moment, const ScheduleRequest& request) {
  for (const config::Tenant& tenant : moment.configuration.tenants) {
    const auto set = request.set.find(tenant.name.value);
    if (set == request.set.end() || !tenant.guarantee.value.is_set()) continue;
    for (const DeviceView& view : moment.snapshot.devices) {
      const machine::Device& device = view.device;
      RATION_TRY(const Bytes limit, config::Amount{set->second}.on(device.total, device.room()));
      const auto guarantee = tenant.guarantee.value.on(device.total, device.room());
      if (guarantee && *guarantee > limit)
        return fail("E1305",
                    fmt::format("tenant {}: limit {} is {} on GPU {}, less than its guarantee {}.", tenant.name.value,
                                set->second, format_size(limit), device.index, tenant.guarantee.value.text),
                    "Raise the limit or lower the guarantee.", 2);
    }
  }
  return {};
}

}  // namespace

Result<std::vector<ScheduleRow>> set_schedule(const Moment& moment, Schedules& schedules, ScheduleRequest request,
                                              const Caller& caller, bool dry_run, Events& events) {
  RATION_TRY(may_schedule(caller));
  request.by = caller.name;
  const std::string name = request.name;
  const ScheduleRequest asked = request;
  RATION_TRY(auto fresh, schedules.with(std::move(request), moment.configuration));
  RATION_TRY(check_on_devices(moment, asked));
  const std::vector<ScheduleRow> rows = rows_for(moment, fresh);
  if (dry_run) return rows;
  RATION_TRY(schedules.save(std::move(fresh)));
  const ScheduleRow& row = rows.front();
  events.push_back(schedule_set_event({name, row.days, row.when, row.set}, caller.name));
  return rows;
}

Result<std::vector<ScheduleRow>> remove_schedule(const Moment& moment, Schedules& schedules, const std::string& name,
                                                 const Caller& caller, bool dry_run, Events& events) {
  RATION_TRY(may_schedule(caller));
  RATION_TRY(auto fresh, schedules.without(name));
  const std::vector<ScheduleRow> rows = rows_for(moment, fresh);
  if (dry_run) return rows;
  RATION_TRY(schedules.save(std::move(fresh)));
  events.push_back(schedule_removed_event(name, caller.name));
  return rows;
}

}  // namespace ration::node
