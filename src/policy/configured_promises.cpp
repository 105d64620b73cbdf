#include "policy/configured_promises.hpp"

#include <fmt/format.h>

#include "base/units.hpp"
#include "policy/configuration_match.hpp"

namespace ration::policy {
namespace {

Bytes kept_free(const Configuration& configuration, const Device& device) {
  const DeviceRule* rule = device_for(configuration, device.index, device.uuid, device.name);
  if (rule == nullptr || !rule->keep_free.value.is_set()) return Bytes{0};
  return rule->keep_free.value.on(device.total, device.free).value_or(Bytes{0});
}

}  // namespace

std::vector<Problem> broken_promises(const Configuration& configuration, const std::vector<Device>& devices) {
  std::vector<Problem> problems;
  for (const Device& device : devices) {
    const Bytes free = kept_free(configuration, device);
    Bytes promised = free;
    const Tenant* last = nullptr;
    for (const Tenant& tenant : configuration.tenants) {
      if (!tenant.guarantee.value.is_set() || promised > device.total) continue;
      promised += tenant.guarantee.value.on(device.total, device.free).value_or(Bytes{0});
      last = &tenant;
    }
    if (promised <= device.total || last == nullptr) continue;
    const std::string beside = free == Bytes{0} ? "" : fmt::format(" and the {} kept free", format_size(free));
    problems.push_back(
        {last->guarantee.origin.file, last->guarantee.origin.place,
         fmt::format("the guarantee of tenant '{}' cannot be kept: with those before it{} {} are "
                     "promised of GPU {}, which has {}",
                     last->name.value, beside, format_size(promised), device.index, format_size(device.total)),
         fmt::format("lower it by {} or more", format_size(promised - device.total))});
  }
  return problems;
}

Error too_much(const std::vector<Problem>& broken) {
  const Problem& first = broken.front();
  return {"E1304", fmt::format("{}: {} (nothing was applied)", place_text(first), first.what), first.fix, 2};
}

}  // namespace ration::policy
