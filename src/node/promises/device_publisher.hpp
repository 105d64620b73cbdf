// Publishes devices of this node to container engines, one device for each tenant, slice and claim, and again whenever
// these devices change.
// Promise: a failure is reported once, and again when its reason changes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "node/promises/container_claims.hpp"
#include "node/tick/moment.hpp"

namespace ration::node {

/// Names of devices by class: `tenant`, `gpu`, `claim`.
using ContainerDevices = std::map<std::string, std::vector<std::string>>;
/// A function that writes devices where engines read them.
using PublishDevices = std::function<Result<void>(const ContainerDevices&)>;

class DevicePublisher {
 public:
  DevicePublisher(const ContainerClaims& claims, PublishDevices publish)
      : claims_(claims), publish_(std::move(publish)) {}

  /// Writes the devices unconditionally. Fails with E1715 if no engine is configured, with E1704 if the devices cannot
  /// be written.
  [[nodiscard]] Result<void> publish(const Moment& moment);
  /// Writes the devices after a tick if they changed or the last attempt failed. Returns a failure only if its reason
  /// is new.
  std::optional<Error> step(const Moment& moment);

 private:
  [[nodiscard]] ContainerDevices devices_of(const Moment& moment) const;

  const ContainerClaims& claims_;
  PublishDevices publish_;
  std::optional<ContainerDevices> published_;
  std::string problem_;
};

}  // namespace ration::node
