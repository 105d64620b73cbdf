// Writes the lines of Slurm's configuration by which a node hands out shares of its GPUs. Used by `ration snippet slurm
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
    std::string model;  ///< such as `NVIDIA H200`
    Bytes total;
    bool is_whole = true;  ///< false for a MIG instance
  };
  std::string name;    ///< its name in slurm.conf
  std::string ration;  ///< the path of the command
  std::string plugin;  ///< the path of the SPANK plugin
  std::string folder;  ///< the folder of cli_filter.lua and job_submit.lua
  std::vector<Gpu> gpus;
};

/// Returns the lines for gres.conf, slurm.conf, cgroup.conf, plugstack.conf and job_submit.lua. Fails with E1708 if the
/// node's name is invalid, if it has no GPU, or if a GPU is divided by MIG (Slurm hands out its instances whole).
[[nodiscard]] Result<std::string> configuration_of(const NodeFacts& node);

}  // namespace ration::adapters::slurm
