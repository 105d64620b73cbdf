// The description of a simulated node as a person writes it: `T4:16GiB*2,A100-40`, or a TOML file. Used by the node.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "driver_profile.hpp"

namespace ration::sim {

struct Model {
  std::string name;
  Bytes total;
  Bytes context;  ///< what one context costs on the device
  bool context_given =
      false;       ///< set in the node's description; otherwise the driver's profile may have a better value
  Bytes reserved;  ///< in use by the driver itself
  Bytes orphaned;  ///< in use by no process, as after one that hangs in the kernel while it dies
  int capability_major = 7;
  int capability_minor = 5;
  int multiprocessors = 40;
  bool memory_info = true;  ///< NVML answers nvmlDeviceGetMemoryInfo
  std::string uuid;         ///< of the card, `GPU-…`, if the file names one; else derived from the node's folder
  int card = 0;             ///< the card that it is, or is a part of
  int instance = 0;         ///< among those of its card
  std::string profile;      ///< of an instance of a card in MIG mode: `3g.20gb`; empty: it is the whole card
  bool persistence = true;
  int numa = -1;             ///< the nearest NUMA node; negative: NVML does not report it
  unsigned utilisation = 0;  ///< percent of the time in which each process on it computes
};

/// Returns the card's name without the profile of an instance.
[[nodiscard]] std::string card_name(const Model& model);

struct NodeSpec {
  std::vector<Model> devices;
  std::string device_nodes;  ///< the folder of the cards' device nodes; empty: not used
  DriverProfile driver;
};

/// `MODEL[:SIZE][:context=SIZE][*COUNT][:mig=PROFILE[*COUNT][+…]]` and `driver=NAME` (find_driver()), separated by
/// commas; or, ending in `.toml`, a file of `driver`, `device_nodes` and of `[[device]]` tables with model, memory,
/// context, reserved, orphaned, count, name, uuid, memory_info, mig, persistence, utilisation, numa. False: `problem`
/// says why.
[[nodiscard]] bool read_node(const std::string& spec, NodeSpec& out, std::string& problem);

}  // namespace ration::sim
