#include "node/tenants/schedules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/say.hpp"
#include "base/strings.hpp"

namespace ration::node {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxSchedules = 64;

Result<void> check_limit(const config::Tenant& tenant, const std::string& text) {
  // Compares the limit, which may be a share of any device, with the guarantee, on a small device and on a large one.
  for (const Bytes device : {Bytes{std::uint64_t{1} << 30}, Bytes{std::uint64_t{1} << 50}}) {
    RATION_TRY(const auto limit, config::Amount{text}.on(device, device));
    if (!tenant.guarantee.value.is_set()) return {};
    const auto guarantee = tenant.guarantee.value.on(device, device);
    if (!guarantee || *guarantee <= limit) return {};
  }
  return fail("E1305",
              fmt::format("tenant {}: limit {} is less than its guarantee {}.", tenant.name.value, text,
                          tenant.guarantee.value.text),
              "Raise the limit or lower the guarantee.", 2);
}

}  // namespace

Result<config::Schedule> to_schedule(const ScheduleRequest& request, const config::Configuration& configuration) {
  const config::Origin origin{fmt::format("ration set --schedule {}, by {}", request.name, request.by), {0, 0}};
  if (!config::is_name(request.name))
    return fail("E1601", fmt::format("'{}' is not a valid name of a schedule.", request.name),
                "night=22:00-07:00:nlp=90%", 2);
  RATION_TRY(const auto when, config::parse_hours(request.when));
  RATION_TRY(const auto days, config::parse_days(request.days.empty() ? "mon-sun" : request.days));
  if (request.set.empty())
    return fail("E1601", fmt::format("schedule {} sets nothing.", request.name), "night=22:00-07:00:nlp=90%", 2);
  config::Schedule schedule{{when, origin}, {days, origin}, {}};
  std::vector<std::string> names;
  for (const config::Tenant& tenant : configuration.tenants) names.push_back(tenant.name.value);
  for (const auto& [name, limit] : request.set) {
    const auto place = std::find(names.begin(), names.end(), name);
    if (place == names.end())
      return fail("E1801",
                  fmt::format("no tenant is named '{}' in the configuration.{}", name, suggestion(name, names)),
                  "ration config print", 3);
    const auto& tenant = configuration.tenants[static_cast<std::size_t>(place - names.begin())];
    RATION_TRY(check_limit(tenant, limit));
    schedule.set[name] = {config::Amount{limit}, origin};
  }
  return schedule;
}

Schedules::Schedules(std::string file) : file_(std::move(file)) {
  file_.read(fixed<"state.schedules_lost">(), [this](const json& document) {
    if (!document.is_array()) throw std::invalid_argument("it is not a list");
    std::vector<ScheduleRequest> read;
    for (const json& row : document)
      read.push_back({row.at("name"), row.at("when"), row.at("days"), row.at("set"), row.at("by")});
    all_ = std::move(read);
  });
}

Result<void> Schedules::save(std::vector<ScheduleRequest> fresh) {
  json rows = json::array();
  for (const ScheduleRequest& request : fresh)
    rows.push_back({{"name", request.name},
                    {"when", request.when},
                    {"days", request.days},
                    {"set", request.set},
                    {"by", request.by}});
  RATION_TRY(file_.write(rows));
  all_ = std::move(fresh);
  return {};
}

Result<std::vector<ScheduleRequest>> Schedules::with(ScheduleRequest request,
                                                     const config::Configuration& configuration) const {
  RATION_TRY(to_schedule(request, configuration));
  std::vector<ScheduleRequest> fresh = all_;
  std::erase_if(fresh, [&](const ScheduleRequest& each) { return each.name == request.name; });
  if (fresh.size() >= kMaxSchedules)
    return fail("E1529", fmt::format("there are {} schedules already.", fresh.size()), "ration set --schedule NAME=off",
                4);
  fresh.insert(fresh.begin(), std::move(request));
  return fresh;
}

Result<std::vector<ScheduleRequest>> Schedules::without(const std::string& name) const {
  std::vector<ScheduleRequest> fresh = all_;
  if (std::erase_if(fresh, [&](const ScheduleRequest& each) { return each.name == name; }) == 0)
    return fail("E1801", fmt::format("no schedule named '{}' was set.", name), "ration set --schedule   shows them", 3);
  return fresh;
}

bool Schedules::set_limit_of(const std::string& tenant, const config::Configuration& configuration) const {
  const auto sets = [&](const auto& schedule) { return schedule.set.count(tenant) != 0; };
  return std::any_of(all_.begin(), all_.end(), sets) ||
         std::any_of(configuration.schedules.begin(), configuration.schedules.end(), sets);
}

ScheduledLimits Schedules::limits_at(const config::Configuration& configuration, const config::LocalTime& now) const {
  ScheduledLimits limits;
  for (const ScheduleRequest& request : all_)
    if (const auto schedule = to_schedule(request, configuration); schedule && config::holds_at(*schedule, now))
      limits.insert(schedule->set.begin(), schedule->set.end());
  limits.merge(config::limits_at(configuration, now));
  return limits;
}

config::LocalTime local_time(std::uint64_t time_of_day_ns) {
  const auto seconds = static_cast<std::time_t>(time_of_day_ns / 1'000'000'000U);
  std::tm broken{};
  ::localtime_r(&seconds, &broken);
  return {broken.tm_wday, broken.tm_hour, broken.tm_min};
}

}  // namespace ration::node
