// Checks a configuration for required keys and for values that contradict each other.
#include <fmt/format.h>

#include <algorithm>

#include "base/strings.hpp"
#include "config/items.hpp"

namespace ration::config {
namespace {

/// Returns true if `part` exceeds `whole` on a small device and on a large one. Returns false if that depends on the
/// device, as it may if only one of the two is a share of the device.
bool always_more(const Amount& part, const Amount& whole) {
  constexpr Bytes kSmall{std::uint64_t{1} << 30}, kLarge{std::uint64_t{1} << 50};
  if (!part.is_set() || !whole.is_set()) return false;
  for (const Bytes total : {kSmall, kLarge}) {
    const auto left = part.on(total, total), right = whole.on(total, total);
    if (!left || !right || *left <= *right) return false;
  }
  return true;
}

class ConsistencyCheck {
 public:
  ConsistencyCheck(const Configuration& configuration, std::vector<FileProblem>& problems)
      : all_(configuration), problems_(problems) {}

  void check() {
    check_daemon();
    guarantee_below(all_.defaults.guarantee, all_.defaults.limit, "");
    for (const Tenant& tenant : all_.tenants)
      guarantee_below(tenant.guarantee, tenant.limit, "tenant " + tenant.name.value);
    for (const Tenant& tenant : all_.tenants) check_currency(tenant.price);
    check_currency(all_.report.price);
    if (const auto& currency = all_.report.currency; !is_currency(currency.value))
      wrong(currency.origin, fmt::format("'{}' is not a currency", currency.value), "currency = \"EUR\"");
    for (const Policy& policy : all_.policies) check_idle(policy.idle);
    for (const Schedule& schedule : all_.schedules) check_schedule(schedule);
  }

 private:
  void wrong(const Origin& origin, std::string what, std::string fix) {
    problems_.push_back({origin.is_default() ? "default" : origin.file, origin.place, std::move(what), std::move(fix)});
  }

  void check_daemon() {
    const Daemon& daemon = all_.daemon;
    const auto endpoint = parse_listen(daemon.listen.value);
    if (endpoint && !endpoint->loopback && daemon.token_file.value.empty()) {
      wrong(daemon.listen.origin,
            fmt::format("other machines can reach {}, so it needs a token_file", daemon.listen.value),
            "token_file = \"/etc/ration/token\", or listen = \"127.0.0.1:7077\"");
    }
    if (daemon.sample.value < std::chrono::milliseconds(10))
      wrong(daemon.sample.origin, "sample must be at least 10ms", "sample = \"500ms\"");
    if (daemon.sample_idle.value < daemon.sample.value) {
      const bool typed = !daemon.sample_idle.origin.is_default();
      wrong(typed ? daemon.sample_idle.origin : daemon.sample.origin, "sample_idle is shorter than sample",
            "sample = \"500ms\", sample_idle = \"5s\"");
    }
  }

  void guarantee_below(const Sourced<Amount>& guarantee, const Sourced<Amount>& limit, const std::string& who) {
    if (!always_more(guarantee.value, limit.value)) return;
    wrong(guarantee.origin,
          fmt::format("{}guarantee {} is more than limit {} ({})", who.empty() ? "" : who + ": ", guarantee.value.text,
                      limit.value.text, limit.origin.text()),
          "Raise the limit or lower the guarantee.");
  }

  void check_currency(const Sourced<std::optional<Price>>& price) {
    if (!price.value || price.value->currency.empty() || price.value->currency == all_.report.currency.value) return;
    wrong(price.origin,
          fmt::format("the price is in {}, the report in {} ({})", price.value->currency, all_.report.currency.value,
                      all_.report.currency.origin.text()),
          "Write all prices in the report's currency.");
  }

  void check_idle(const Idle& idle) {
    if (!idle.after.value && !idle.action.origin.is_default())
      wrong(idle.action.origin, "idle needs the key 'after'", "idle = { after = \"30m\", action = \"trim\" }");
    if (!idle.suspend_after.value) return;
    if (!idle.after.value || idle.action.value == IdleAction::kSuspend ||
        *idle.suspend_after.value <= *idle.after.value)
      wrong(idle.suspend_after.origin,
            "suspend_after is a second step: it must be longer than 'after', and action must not be suspend",
            "idle = { after = \"30m\", action = \"trim\", suspend_after = \"2h\" }");
  }

  void check_schedule(const Schedule& schedule) {
    for (const auto& [name, limit] : schedule.set) {
      std::vector<std::string> names;
      const Tenant* tenant = nullptr;
      for (const Tenant& known : all_.tenants) {
        names.push_back(known.name.value);
        if (known.name.value == name) tenant = &known;
      }
      if (tenant == nullptr) {
        const std::string meant = nearest(name, names);
        wrong(limit.origin,
              fmt::format("there is no tenant '{}'{}", name,
                          meant.empty() ? "" : fmt::format(" - did you mean '{}'?", meant)),
              names.empty() ? "[[tenant]]" : fmt::format("Known: {}", fmt::join(names, ", ")));
      } else {
        guarantee_at(limit, *tenant);
      }
    }
  }

  void guarantee_at(const Sourced<Amount>& limit, const Tenant& tenant) {
    if (!always_more(tenant.guarantee.value, limit.value)) return;
    wrong(limit.origin,
          fmt::format("tenant {}: limit {} is less than its guarantee {} ({})", tenant.name.value, limit.value.text,
                      tenant.guarantee.value.text, tenant.guarantee.origin.text()),
          "Raise the limit or lower the guarantee.");
  }

  const Configuration& all_;
  std::vector<FileProblem>& problems_;
};

/// Reports a policy without settings, and a schedule without hours or without limits.
void check_needed(const Item& item, std::vector<FileProblem>& problems) {
  const std::string_view section = item.section->name;
  if (section == "policy" && item.leaves.empty())
    problems.push_back(
        {item.origin.file, item.origin.place, "a policy sets no limit, guarantee or idle", "limit = \"8GiB\""});
  if (section != "schedule") return;
  const bool sets = std::any_of(item.leaves.begin(), item.leaves.end(),
                                [](const auto& entry) { return entry.first.rfind("set.", 0) == 0; });
  if (item.leaves.count("when") == 0)
    problems.push_back(
        {item.origin.file, item.origin.place, "a schedule needs the key 'when'", "when = \"22:00-07:00\""});
  if (!sets)
    problems.push_back(
        {item.origin.file, item.origin.place, "a schedule needs the key 'set'", "set = { nlp = \"90%\" }"});
}

}  // namespace

void check_items(const std::vector<Item>& items, std::vector<FileProblem>& problems) {
  for (const Item& item : items) check_needed(item, problems);
}

void check_consistency(const Configuration& configuration, std::vector<FileProblem>& problems) {
  ConsistencyCheck(configuration, problems).check();
}

}  // namespace ration::config
