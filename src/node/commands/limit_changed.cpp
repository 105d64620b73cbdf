#include "node/commands/limit_changed.hpp"

#include <fmt/format.h>

#include "base/command.hpp"

namespace ration::node {
namespace {

using nlohmann::json;

json changed_json(const LimitChanged& change, bool applied) {
  json row{{"workload", change.workload},
           {"old_limit_bytes", change.old_limit.count()},
           {"limit_bytes", change.limit.count()},
           {"effective_limit_bytes", change.effective.count()},
           {"old_guarantee_bytes", change.old_guarantee.count()},
           {"guarantee_bytes", change.guarantee.count()},
           {"used_bytes", change.used.count()},
           {"shrinking", change.used > change.limit},
           {"applied", applied}};
  row["gpu"] = change.gpu ? json(*change.gpu) : json(nullptr);
  if (!change.gpu) row["gpu_na"] = "the device is not on this machine";
  row["device_free_bytes"] = change.device_free ? json(change.device_free->count()) : json(nullptr);
  if (!change.device_free) row["device_free_bytes_na"] = "the driver cannot be asked";
  if (!change.held_back_by.empty()) row["held_back_by"] = change.held_back_by;
  return row;
}

/// What a change means, in one sentence.
json consequence(const LimitChanged& change) {
  if (change.used > change.limit)
    return {
        {"level", "warn"},
        {"text", fmt::format("{} uses {}, {} more than that: nothing is taken away, more is denied until it is under.",
                             change.workload, format_size(change.used), format_size(change.used - change.limit))}};
  if (!change.held_back_by.empty())
    return {{"level", "info"},
            {"text",
             fmt::format("It may hold {} at this moment: {}.", format_size(change.effective), change.held_back_by)}};
  const Bytes more = change.limit - change.used;
  const std::string gpu = change.gpu ? fmt::format("GPU {}", *change.gpu) : "a GPU that is not here";
  if (change.device_free && more > *change.device_free)
    return {{"level", "info"},
            {"text", fmt::format("{} has {} free: {} cannot be reached at this moment.", gpu,
                                 format_size(*change.device_free), format_size(change.limit))}};
  return {{"level", "info"},
          {"text", fmt::format("The next allocation on {} sees {}.", gpu, format_size(change.limit))}};
}

}  // namespace

Result<void> check_amounts(const LimitChanged& change) {
  if (change.guarantee <= change.limit) return {};
  return fail("E1305",
              fmt::format("the guarantee {} is more than the limit {}.", format_size(change.guarantee),
                          format_size(change.limit)),
              command({"set", change.workload, "--limit", exact_size(change.guarantee)}), 2);
}

json changes_json(const std::vector<LimitChanged>& changes, bool applied) {
  json rows = json::array(), consequences = json::array();
  for (const LimitChanged& change : changes) {
    rows.push_back(changed_json(change, applied));
    consequences.push_back(consequence(change));
  }
  return {{"changes", std::move(rows)}, {"consequences", std::move(consequences)}};
}

}  // namespace ration::node
