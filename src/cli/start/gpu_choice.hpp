// Which GPUs a command is about. Used by `ration run`, with --wait and without, and by `ration fits`. Promise: all of
// them go by the one rule of choose_gpus(), so that what fits is what runs.
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
  bool any_one = false;  ///< one of them, whichever has the most room; false: all of them, each with the whole limit

  /// As --gpu takes it, and the daemon's queue: `auto`, or `0,1`.
  [[nodiscard]] std::string text() const;
};

/// `--gpu auto`: any one. `--gpu all`, `--gpu 0,1`: all of these. Nothing typed: what CUDA_VISIBLE_DEVICES names, or
/// all cards of a node that --sim describes with several, else any one. E1407.
[[nodiscard]] Result<GpuChoice> choose_gpus(const Session& session, const machine::Machine& machine,
                                            const std::string& typed);

/// What a device can give.
struct Room {
  machine::Device device;
  Bytes largest;    ///< when nobody else is there
  Bytes available;  ///< now, to somebody who is promised nothing
  Bytes promised, kept_free;
};

/// The room on those of the devices that the snapshot has, in their order.
[[nodiscard]] std::vector<Room> rooms_on(const std::vector<machine::Device>& devices, const nlohmann::json& snapshot);

/// The device that decides: of any one the emptiest, of all together the fullest. `rooms` is not empty.
[[nodiscard]] const Room& deciding(const std::vector<Room>& rooms, bool any_one);

/// Who holds what on a device, or is kept it: `vision 10.0 GiB, nlp 3.80 GiB (promised 6.00 GiB), not governed: pid
/// 6001 python (carol) 1.60 GiB`; or empty.
[[nodiscard]] std::string holders_on(const Session& session, const nlohmann::json& snapshot, int gpu);

}  // namespace ration::cli
