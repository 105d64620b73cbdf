#include "node/promises/device_publisher.hpp"

namespace ration::node {

ContainerDevices DevicePublisher::devices_of(const Moment& moment) const {
  ContainerDevices devices{{"claim", {}}, {"gpu", {}}, {"tenant", {}}};
  for (const auto& [id, claim] : claims_.all()) devices["claim"].push_back(id);
  for (const admission::Slice& slice : moment.slices) devices["gpu"].push_back(slice.name);
  for (const config::Tenant& tenant : moment.configuration.tenants) devices["tenant"].push_back(tenant.name.value);
  return devices;
}

Result<void> DevicePublisher::publish(const Moment& moment) {
  if (!publish_)
    return fail("E1715", "this daemon publishes no devices to container engines, so no container can use one.",
                R"([containers] cdi = "/var/run/cdi" in ration.toml, then start the daemon again)", 1);
  ContainerDevices devices = devices_of(moment);
  auto written = publish_(devices);
  published_ = std::move(devices);
  problem_ = written ? "" : written.error().what;
  return written;
}

std::optional<Error> DevicePublisher::step(const Moment& moment) {
  if (!publish_ || (published_ == devices_of(moment) && problem_.empty())) return std::nullopt;
  const std::string before = problem_;
  const auto written = publish(moment);
  return written || before == problem_ ? std::nullopt : std::optional(written.error());
}

}  // namespace ration::node
