// Workloads on simulated nodes other than the one that a command shows. Used by ps and top.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/session/session.hpp"

namespace ration::cli {

/// Returns how many workloads run on each simulated node, named as --sim takes it, that has none of `devices` and to
/// which none of `rows` belongs.
[[nodiscard]] std::map<std::string, int> workloads_of_other_nodes(const Session& session, const nlohmann::json& devices,
                                                                  const nlohmann::json& rows);

}  // namespace ration::cli
