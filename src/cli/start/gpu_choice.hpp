// The choice of a command's GPUs. Used by `ration run`, with and without --wait, and by `ration fits`. Promise: one
// rule serves them all, so that a program runs on the GPUs that `ration fits` names.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/session/session.hpp"
#include "machine/devices.hpp"

namespace ration::cli {

struct GpuChoice {
  std::vector<machine::Device> devices;
  bool any_one = false;  ///< true: one GPU, the one with the most room; false: all of them, each with the whole limit

  /// Returns the choice as --gpu and the daemon's queue take it: `auto`, or `0,1`.
  [[nodiscard]] std::string text() const;
};

/// Chooses GPUs by --gpu: `auto` means any one GPU, `all` means all GPUs, `0,1` means both of these. Without --gpu,
/// chooses the GPUs in CUDA_VISIBLE_DEVICES. If that is not set either, chooses all GPUs if --sim describes several,
/// and any one otherwise. Fails with E1407.
[[nodiscard]] Result<GpuChoice> choose_gpus(const Session& session, const machine::Machine& machine,
                                            const std::string& typed);

/// The room that a new workload of one tenant has on a device.
struct Room {
  machine::Device device;
  Bytes available;  ///< free, and not kept for others
  Bytes kept_free;
  std::string tenant;
  Bytes tenant_limit = kUnlimited;
  Bytes left_of_limit = kUnlimited;  ///< the tenant's limit without what its workloads hold or are guaranteed

  /// Returns the most that a limit can be now.
  [[nodiscard]] Bytes now() const { return std::min(available, left_of_limit); }
  /// Returns the largest limit while no other workload runs.
  [[nodiscard]] Bytes largest() const {
    return std::min(device.total - std::min(device.total, kept_free), tenant_limit);
  }
};

/// Returns the room on each of the devices that the snapshot has, in the order of `devices`. The snapshot is one with
/// `room`.
[[nodiscard]] std::vector<Room> rooms_on(const std::vector<machine::Device>& devices, const nlohmann::json& snapshot);

/// Returns the room that decides whether a size fits: the largest if any one GPU will do, the smallest if all are
/// needed. `rooms` must not be empty.
[[nodiscard]] const Room& deciding(const std::vector<Room>& rooms, bool any_one);

/// Returns the holders of a device's memory, with what is promised to them: `vision 10.0 GiB, nlp 3.80 GiB (promised
/// 6.00 GiB), not governed: pid 6001 python (carol) 1.60 GiB`; empty if there are none.
[[nodiscard]] std::string holders_on(const Session& session, const nlohmann::json& snapshot, int gpu);

}  // namespace ration::cli
