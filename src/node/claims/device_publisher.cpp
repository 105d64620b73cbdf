#include "node/claims/device_publisher.hpp"

namespace ration::node {
namespace {

ContainerDevices devices_of(const NodeState& state) {
  ContainerDevices devices{{"claim", {}}, {"gpu", {}}, {"tenant", {}}};
  for (const auto& [id, claim] : state.container_claims.all()) devices["claim"].push_back(id);
  for (const admission::Slice& slice : state.slices) devices["gpu"].push_back(slice.name);
  for (const config::Tenant& tenant : state.configuration.tenants) devices["tenant"].push_back(tenant.name.value);
  return devices;
}

}  // namespace

Result<void> DevicePublisher::publish(const NodeState& state) {
  if (!publish_)
    return fail("E1715", "this daemon publishes no devices to container engines, so no container can get one.",
                R"([containers] cdi = "/var/run/cdi" in ration.toml, then start the daemon again)", 1);
  ContainerDevices devices = devices_of(state);
  auto written = publish_(devices);
  published_ = std::move(devices);
  problem_ = written ? "" : written.error().what;
  return written;
}

std::optional<Error> DevicePublisher::step(const NodeState& state) {
  if (!publish_ || (published_ == devices_of(state) && problem_.empty())) return std::nullopt;
  const std::string before = problem_;
  const auto written = publish(state);
  return written || before == problem_ ? std::nullopt : std::optional(written.error());
}

}  // namespace ration::node
