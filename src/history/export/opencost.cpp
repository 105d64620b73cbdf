// Writes OpenCost's /allocation answer: GPU memory as shares of GPUs, and zero for everything else.
#include <algorithm>
#include <map>

#include "base/labels.hpp"
#include "history/export/writers.hpp"

namespace ration::history {
namespace {

struct Share {
  double gpu_hours = 0, used_hours = 0, cost = 0;
  TimeMs ms = 0;
  nlohmann::json properties;
};

std::string idle_name(Kind kind) {
  switch (kind) {
    case Kind::kIdle:
    case Kind::kOverlap:  // memory that was charged twice is subtracted from the idle memory
      return "__idle__";
    case Kind::kUngoverned:
      return "__unallocated__";
    case Kind::kGap:
      return "__not_recorded__";
    default:
      return "__driver__";
  }
}

nlohmann::json properties_of(const ExportFacts& facts, const RunFacts* run) {
  nlohmann::json properties = {{"cluster", facts.host}, {"node", facts.host}};
  if (run == nullptr) return properties;
  properties["namespace"] = run->tenant;
  properties["controller"] = run->workload;
  properties["controllerKind"] = "workload";
  nlohmann::json labels = {{"user", run->user}};
  for (const auto& [name, value] : parse_labels(run->labels)) labels[name] = value;
  properties["labels"] = std::move(labels);
  return properties;
}

}  // namespace

nlohmann::json to_opencost(const Charges& charges, const ExportFacts& facts) {
  std::map<TimeMs, std::map<std::string, Share>> sets;
  for (const ChargeLine& line : charges.lines) {
    const auto device = charges.devices.find(line.device);
    const double gib = device == charges.devices.end() ? 0 : static_cast<double>(device->second.capacity) / (1 << 30);
    const RunFacts* run = line.kind == Kind::kGoverned ? charges.run_of(line) : nullptr;
    const std::string name = run != nullptr ? run->tenant + "/" + run->workload : idle_name(line.kind);
    Share& share = sets[line.from][name];
    if (share.properties.is_null()) share.properties = properties_of(facts, run);
    if (gib > 0) share.gpu_hours += gib_hours(line.charged) / gib, share.used_hours += gib_hours(line.used) / gib;
    if (line.kind != Kind::kGap)
      share.cost += gib_hours(line.charged) * static_cast<double>(facts.prices.of(run)) / 1e9;
    share.ms = std::max(share.ms, line.ms);
  }
  nlohmann::json data = nlohmann::json::array();
  for (const auto& [from, shares] : sets) {
    const TimeMs to =
        charges.sliced == Slice::kDay ? std::min(charges.to, from / kDayMs * kDayMs + kDayMs) : charges.to;
    nlohmann::json set = nlohmann::json::object();
    for (const auto& [name, share] : shares) {
      const double minutes = static_cast<double>(share.ms) / kMinuteMs;
      nlohmann::json allocation = {{"name", name},
                                   {"properties", share.properties},
                                   {"window", {{"start", rfc3339(from)}, {"end", rfc3339(to)}}},
                                   {"start", rfc3339(from)},
                                   {"end", rfc3339(to)},
                                   {"minutes", minutes},
                                   {"gpuCount", minutes > 0 ? share.gpu_hours / (minutes / 60) : 0},
                                   {"gpuHours", share.gpu_hours},
                                   {"gpuCost", share.cost},
                                   {"gpuEfficiency", share.gpu_hours > 0 ? share.used_hours / share.gpu_hours : 0},
                                   {"totalCost", share.cost},
                                   {"totalEfficiency", share.gpu_hours > 0 ? share.used_hours / share.gpu_hours : 0}};
      for (const char* nothing : {"cpuCores", "cpuCoreHours", "cpuCost", "ramBytes", "ramByteHours", "ramCost",
                                  "networkCost", "loadBalancerCost", "pvCost", "sharedCost", "externalCost"})
        allocation[nothing] = 0;
      set[name] = std::move(allocation);
    }
    data.push_back(std::move(set));
  }
  return {{"code", 200}, {"status", "success"}, {"data", std::move(data)}};
}

}  // namespace ration::history
