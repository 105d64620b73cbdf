// The choice of a command's GPUs. Used by `ration run`, with and without --wait, and by `ration fits`. Promise: one
// rule serves them all, so that a program runs on the GPUs that `ration fits` names.
#pragma once

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

/// The room on a device.
struct Room {
  machine::Device device;
  Bytes largest;    ///< largest limit while no other workload runs
  Bytes available;  ///< bytes that a workload without a guarantee can take now
  Bytes kept_free;
};

/// Returns the room on each of the devices that the snapshot has, in the order of `devices`.
[[nodiscard]] std::vector<Room> rooms_on(const std::vector<machine::Device>& devices, const nlohmann::json& snapshot);

/// Returns the room that decides whether a size fits: the largest if any one GPU will do, the smallest if all are
/// needed. `rooms` must not be empty.
[[nodiscard]] const Room& deciding(const std::vector<Room>& rooms, bool any_one);

/// Returns the holders of a device's memory, with what is promised to them: `vision 10.0 GiB, nlp 3.80 GiB (promised
/// 6.00 GiB), not governed: pid 6001 python (carol) 1.60 GiB`; empty if there are none.
[[nodiscard]] std::string holders_on(const Session& session, const nlohmann::json& snapshot, int gpu);

}  // namespace ration::cli
