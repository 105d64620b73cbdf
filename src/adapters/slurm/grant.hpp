// Parses the share of GPUs that Slurm granted a job on a node, as slurmctld reports it (`scontrol --details show job`,
// field GRES). Used by the hook of jobs. Slurm counts shards in MiB of one GPU (`ration snippet slurm --node`).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace ration::adapters::slurm {

struct Share {
  int gpu = 0;  ///< number of its line in gres.conf, from 0; the lines are in ration's order of GPUs
  Bytes bytes;
};

/// Parses `shard:h200:61440(IDX:0)`, `gpu:h200:0,shard:61440(IDX:1)` and, since Slurm 23.11, `shard:61440(0/144384,
/// 61440/144384)`; empty if the job has no share here. Fails with E1720 if the text has another form or names no GPU.
[[nodiscard]] Result<std::vector<Share>> shares_in(const std::string& gres);

}  // namespace ration::adapters::slurm
