// What container engines are told of this node: a device for each tenant, slice and claim, written anew whenever they
// change. Used by the daemon. Promise: what cannot be written is told once, and again when it fails in another way.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "node/state/node_state.hpp"

namespace ration::node {

/// Names of devices by their class: `tenant`, `gpu`, `claim`.
using ContainerDevices = std::map<std::string, std::vector<std::string>>;
/// Writes them where engines read them.
using PublishDevices = std::function<Result<void>(const ContainerDevices&)>;

class DevicePublisher {
 public:
  explicit DevicePublisher(PublishDevices publish) : publish_(std::move(publish)) {}

  /// Writes them, whatever is there. E1715: no engine is told of anything. E1704.
  [[nodiscard]] Result<void> publish(const NodeState& state);
  /// After a tick: the same if they changed, or could not be written. What went wrong, where that is news.
  std::optional<Error> step(const NodeState& state);

 private:
  PublishDevices publish_;
  std::optional<ContainerDevices> published_;
  std::string problem_;
};

}  // namespace ration::node
