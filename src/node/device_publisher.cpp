#include "node/device_publisher.hpp"

namespace ration::node {

std::optional<Error> DevicePublisher::step(const config::Configuration& configuration,
                                           const std::vector<policy::Slice>& slices) {
  if (!publish_) return std::nullopt;
  ContainerDevices devices{{"gpu", {}}, {"tenant", {}}};
  for (const config::Tenant& tenant : configuration.tenants) devices["tenant"].push_back(tenant.name.value);
  for (const policy::Slice& slice : slices) devices["gpu"].push_back(slice.name);
  if (published_ == devices && problem_.empty()) return std::nullopt;
  const auto written = publish_(devices);
  published_ = std::move(devices);
  const std::string before = std::exchange(problem_, written ? "" : written.error().what);
  return written || before == problem_ ? std::nullopt : std::optional(written.error());
}

}  // namespace ration::node
