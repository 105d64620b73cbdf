// What Slurm's configuration has to say for a node to hand out shares of its GPUs. Used by `ration snippet slurm
// --node`.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace ration::adapters::slurm {

struct NodeFacts {
  struct Gpu {
    int index = 0;
    std::string model;  ///< NVIDIA H200
    Bytes total;
    bool is_whole = true;  ///< no MIG instance
  };
  std::string name;    ///< as slurm.conf has it
  std::string ration;  ///< the command
  std::string plugin;  ///< path of the SPANK plugin
  std::string folder;  ///< of cli_filter.lua and job_submit.lua
  std::vector<Gpu> gpus;
};

/// The lines for gres.conf, slurm.conf, cgroup.conf, plugstack.conf and job_submit.lua. E1708: the node's name cannot
/// be one, it has no GPU, or one is divided by MIG (Slurm hands out its instances whole).
[[nodiscard]] Result<std::string> configuration_of(const NodeFacts& node);

}  // namespace ration::adapters::slurm
