// What Slurm granted a job on a node, as slurmctld tells it (`scontrol --details show job`, field GRES). Used by the
// hook of jobs. Shards are counted in MiB of one GPU (`ration snippet slurm --node`).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace ration::adapters::slurm {

struct Share {
  int gpu = 0;  ///< as the lines of gres.conf count, which are in ration's order
  Bytes bytes;
};

/// `shard:h200:61440(IDX:0)`, `gpu:h200:0,shard:61440(IDX:1)`, and of Slurm 23.11 and newer `shard:61440(0/144384,
/// 61440/144384)`. Empty: the job has no share here. E1720: it is none of these, or tells no GPU.
[[nodiscard]] Result<std::vector<Share>> shares_in(const std::string& gres);

}  // namespace ration::adapters::slurm
