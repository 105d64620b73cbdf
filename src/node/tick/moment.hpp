// The findings of a tick: the time, the configuration, books, devices and slices, and the snapshot made of them.
// Between two ticks, the findings stay as the latest tick left them. The engine writes them; rules and requests read
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "admission/slices.hpp"
#include "config/configuration.hpp"
#include "node/books/registry.hpp"
#include "node/events/event_text.hpp"
#include "node/snapshot/snapshot.hpp"

namespace ration::node {

struct Moment {
  std::uint64_t now_ns = 0;          ///< time of steady_time_ns(), for every age and deadline
  std::uint64_t time_of_day_ns = 0;  ///< the same instant by the wall clock, which may jump; for display and records
  std::uint64_t first_tick_ns = 0;   ///< by the wall clock
  config::Configuration configuration;
  Registry registry;
  Changes changes;  ///< changes of the books at the latest refresh
  Result<machine::Machine> machine = fail("E1403", "the devices were not queried yet.");
  std::vector<admission::Slice> slices;
  std::size_t queue_length = 0;  ///< commands that wait for memory
  Snapshot snapshot;             ///< the latest snapshot; rules that run before it is built see the previous one

  /// Converts a steady time into a time of day.
  [[nodiscard]] std::uint64_t time_of_day_at(std::uint64_t steady_ns) const {
    return time_of_day_ns - (now_ns - steady_ns);
  }
};

/// Returns the device; null if it is not on this machine any more, or the driver cannot be queried.
[[nodiscard]] const machine::Device* device_of(const Moment& moment, const book::DeviceUuid& uuid);
[[nodiscard]] std::optional<int> gpu_of(const Moment& moment, const book::DeviceUuid& uuid);
/// Returns the workload as the subject of an event, with the workload's first device.
[[nodiscard]] EventSubject event_subject(const Moment& moment, const Workload& workload);
/// Returns the workload as the subject of an event, with that device.
[[nodiscard]] EventSubject event_subject(const Moment& moment, const Workload& workload,
                                         const book::DeviceUuid& device);

}  // namespace ration::node
