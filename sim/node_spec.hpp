// What a simulated node is made of, as a person writes it: `T4:16GiB*2,A100-40`, or a TOML file. Used by the node.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "driver_profile.hpp"

namespace ration::sim {

struct Model {
  std::string name;
  Bytes total;
  Bytes context;               ///< what one context costs on the device
  bool context_given = false;  ///< by the description of the node; else the driver's profile may know better
  Bytes reserved;              ///< by the driver for itself
  Bytes orphaned;              ///< in use, and of no process: as after one that hangs in the kernel while it dies
  int capability_major = 7;
  int capability_minor = 5;
  int multiprocessors = 40;
  bool memory_info = true;  ///< NVML answers nvmlDeviceGetMemoryInfo
  std::string uuid;         ///< of the card, `GPU-…`, where the file names one; else made from the node's folder
  int card = 0;             ///< that it is, or is a part of
  int instance = 0;         ///< among those of its card
  std::string profile;      ///< of an instance of a card in MIG mode: `3g.20gb`; empty: it is the whole card
  bool persistence = true;
  int numa = -1;             ///< the NUMA node whose processors are nearest; negative: NVML does not say
  unsigned utilisation = 0;  ///< percent of the time in which every process on it computes
};

/// Without the profile of an instance.
[[nodiscard]] std::string card_name(const Model& model);

struct NodeSpec {
  std::vector<Model> devices;
  DriverProfile driver;
};

/// `MODEL[:SIZE][:context=SIZE][*COUNT][:mig=PROFILE[*COUNT][+…]]` and `driver=NAME` (find_driver()), separated by
/// commas; or, ending in `.toml`, a file of `driver` and of `[[device]]` tables with model, memory, context, reserved,
/// orphaned, count, name, uuid, memory_info, mig,
/// persistence, utilisation, numa. False: `problem` says why.
[[nodiscard]] bool read_node(const std::string& spec, NodeSpec& out, std::string& problem);

}  // namespace ration::sim
