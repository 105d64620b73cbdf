// What container engines are told of this node: a device for each tenant and each slice, written anew whenever they
// change. Used by the daemon. Promise: what cannot be written is told once, and again when it fails in another way.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "config/configuration.hpp"
#include "policy/slices.hpp"

namespace ration::node {

/// Names of devices by their class: `tenant`, `gpu`.
using ContainerDevices = std::map<std::string, std::vector<std::string>>;
/// Writes them where engines read them.
using PublishDevices = std::function<Result<void>(const ContainerDevices&)>;

class DevicePublisher {
 public:
  explicit DevicePublisher(PublishDevices publish) : publish_(std::move(publish)) {}

  /// After a tick. What went wrong, where that is news.
  std::optional<Error> step(const config::Configuration& configuration, const std::vector<policy::Slice>& slices);

 private:
  PublishDevices publish_;
  std::optional<ContainerDevices> published_;
  std::string problem_;
};

}  // namespace ration::node
