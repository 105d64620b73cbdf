// The description of a simulated node in a person's words: `T4:16GiB*2,A100-40`, or a TOML file. Used by the node.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "driver_profile.hpp"

namespace ration::sim {

struct Model {
  std::string name;
  Bytes total;
  Bytes context;               ///< the cost of one context on the device
  bool context_given = false;  ///< true if the description sets it; if not, the driver's profile may know better
  Bytes reserved;              ///< in use by the driver itself
  Bytes orphaned;              ///< in use by no process, as if left by one that hangs in the kernel while it ends
  int capability_major = 7;
  int capability_minor = 5;
  int multiprocessors = 40;
  bool memory_info = true;  ///< NVML answers nvmlDeviceGetMemoryInfo
  std::string uuid;  ///< the UUID of the GPU, `GPU-…`, if the file gives one; else it is derived from the node's folder
  int card = 0;      ///< the number of the GPU that the device is or belongs to
  int instance = 0;     ///< the number of a MIG instance among those of its GPU
  std::string profile;  ///< the profile of a MIG instance, such as `3g.20gb`; empty: the device is a whole GPU
  bool persistence = true;
  int numa = -1;             ///< the nearest NUMA node; negative: NVML does not report it
  unsigned utilisation = 0;  ///< the percentage of time in which each process on it computes
};

/// Returns the GPU's name without the profile of an instance.
[[nodiscard]] std::string card_name(const Model& model);

struct NodeSpec {
  std::vector<Model> devices;
  std::string device_nodes;  ///< the folder of the GPUs' device nodes; empty: not used
  DriverProfile driver;
};

/// Reads a description: `MODEL[:SIZE][:context=SIZE][*COUNT][:mig=PROFILE[*COUNT][+…]]` and `driver=NAME`
/// (find_driver()), separated by commas. A `spec` that ends in `.toml` is the path of a file with `driver`,
/// `device_nodes` and `[[device]]` tables, whose keys are model, memory, context, reserved, orphaned, count, name,
/// uuid, memory_info, mig, persistence, utilisation and numa. Returns false with the reason in `problem`.
[[nodiscard]] bool read_node(const std::string& spec, NodeSpec& out, std::string& problem);

}  // namespace ration::sim
