#include "adapters/slurm/configuration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>

#include "base/printable.hpp"

namespace ration::adapters::slurm {
namespace {

/// Returns Slurm's type for a model, one word: `h100` for `NVIDIA H100 80GB HBM3`.
std::string type_of(const std::string& model) {
  std::string word;
  for (std::size_t at = 0; at <= model.size(); ++at) {
    const char letter = at < model.size() ? model[at] : ' ';
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      continue;
    }
    if (!word.empty() && word != "nvidia" && word != "tesla" && word != "geforce" && word != "quadro") return word;
    word.clear();
  }
  return "gpu";
}

bool is_node_name(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char letter) {
    return std::isalnum(letter) != 0 || std::strchr("-._", letter) != nullptr;
  });
}

std::uint64_t mib_of(Bytes bytes) { return bytes.count() >> 20; }

}  // namespace

Result<std::string> configuration_of(const NodeFacts& node) {
  const char* fix = "ration snippet slurm --node NAME   on the node itself; NAME as in slurm.conf";
  if (!is_node_name(node.name))
    return fail("E1708", fmt::format("'{}' is not the name of a node.", printable(node.name)), fix, 2);
  if (node.gpus.empty()) return fail("E1708", "this machine has no GPU.", fix, 2);
  std::string devices, shares;
  std::map<std::string, int> types;
  std::uint64_t sum = 0, largest = 0;
  for (const NodeFacts::Gpu& gpu : node.gpus) {
    if (!gpu.is_whole)
      return fail("E1708",
                  fmt::format("GPU {} is divided by MIG, and Slurm cannot share an instance between jobs.", gpu.index),
                  "AutoDetect=nvml in gres.conf", 2);
    const std::string type = type_of(gpu.model);
    devices += fmt::format("NodeName={} Name=gpu Type={} File=/dev/nvidia{}\n", node.name, type, gpu.index);
    shares +=
        fmt::format("NodeName={} Name=shard Count={} File=/dev/nvidia{}\n", node.name, mib_of(gpu.total), gpu.index);
    ++types[type];
    sum += mib_of(gpu.total);
    largest = std::max(largest, mib_of(gpu.total));
  }
  std::string whole;
  for (const auto& [type, count] : types) whole += fmt::format("gpu:{}:{},", type, count);
  return fmt::format(
      R"(# gres.conf: a share is counted in MiB of one GPU, in the order of nvidia-smi
{}{}
# slurm.conf
GresTypes=gpu,shard
AccountingStorageTRES=gres/gpu,gres/shard
PrologFlags=Alloc,Contain
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
CliFilterPlugins=cli_filter/lua
JobSubmitPlugins=lua
# added to the line of the node
NodeName={} Gres={}shard:{}

# cgroup.conf: a job that did not request a GPU cannot open one
ConstrainDevices=yes

# plugstack.conf, on every node and wherever jobs are submitted
required {} ration={}

# beside slurm.conf: cli_filter.lua and job_submit.lua of {}
# in job_submit.lua, the largest GPU of the cluster
largest_gpu_mib = {}
# check: srun --gpu-mem=1GiB nvidia-smi   shows 1024MiB as the total
)",
      devices, shares, node.name, whole, sum, node.plugin, node.ration, node.folder, largest);
}

}  // namespace ration::adapters::slurm
