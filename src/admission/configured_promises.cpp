#include "admission/configured_promises.hpp"

#include <fmt/format.h>

#include "admission/promises.hpp"
#include "admission/slices.hpp"
#include "base/command.hpp"
#include "base/units.hpp"
#include "config/match.hpp"

namespace ration::admission {
namespace {

/// Reports a rule for a device that needs more memory than the device has, either to keep `free` bytes free or for its
/// slices.
void check_rule(const config::DeviceRule& rule, Bytes free, const machine::Device& device,
                std::vector<FileProblem>& problems) {
  if (free > device.total)
    problems.push_back({rule.keep_free.origin.file, rule.keep_free.origin.place,
                        fmt::format("keep_free of {} is more than GPU {} has ({})", format_size(free), device.index,
                                    format_size(device.total)),
                        fmt::format("keep_free = \"{}\" or less", exact_size(device.total))});
  if (rule.slices.value.empty()) return;
  const auto shares = parse_shares(device, fmt::format("{}", fmt::join(rule.slices.value, ",")));
  if (shares) return;
  std::string_view why = shares.error().what;
  if (!why.empty() && why.back() == '.') why.remove_suffix(1);
  problems.push_back({rule.slices.origin.file, rule.slices.origin.place,
                      fmt::format("slices do not fit GPU {}: {}", device.index, why),
                      "slices = [\"4GiB\", \"rest\"]   (sizes that fit together)"});
}

}  // namespace

Bytes kept_free(const config::Configuration& configuration, const machine::Device& device) {
  const config::DeviceRule* rule = config::device_for(configuration, device.index, device.uuid, device.name);
  if (rule == nullptr || !rule->keep_free.value.is_set()) return Bytes{0};
  return rule->keep_free.value.on(device.total, device.room()).value_or(Bytes{0});
}

std::vector<FileProblem> broken_promises(const config::Configuration& configuration,
                                         const std::vector<machine::Device>& devices) {
  std::vector<FileProblem> problems;
  for (const machine::Device& device : devices) {
    const Bytes free = kept_free(configuration, device);
    if (const config::DeviceRule* rule = config::device_for(configuration, device.index, device.uuid, device.name);
        rule != nullptr)
      check_rule(*rule, free, device, problems);
    Promises promises{free};
    const config::Tenant* last = nullptr;
    for (const config::Tenant& tenant : configuration.tenants) {
      if (!tenant.guarantee.value.is_set() || promises.total() > device.total) continue;
      promises.set_tenant(tenant.name.value, tenant.guarantee.value.on(device.total, device.room()).value_or(Bytes{0}));
      last = &tenant;
    }
    const Bytes promised = promises.total();
    if (promised <= device.total || last == nullptr) continue;
    const std::string beside = free == Bytes{0} ? "" : fmt::format(" and the {} kept free", format_size(free));
    problems.push_back(
        {last->guarantee.origin.file, last->guarantee.origin.place,
         fmt::format("the guarantee of tenant '{}' cannot be kept: together with the guarantees before it{}, "
                     "{} would be promised of GPU {}, which has {}",
                     last->name.value, beside, format_size(promised), device.index, format_size(device.total)),
         fmt::format("lower it by {} or more", format_size(promised - device.total))});
  }
  return problems;
}

Error too_much(const std::vector<FileProblem>& broken) {
  const FileProblem& first = broken.front();
  return {"E1304", fmt::format("{}: {} (nothing was applied)", place_text(first), first.what), first.fix, 2};
}

}  // namespace ration::admission
