// The part of `ration ps` that sums up the rows of each tenant (`--by tenant`).
#pragma once

#include <nlohmann/json.hpp>

#include "cli/session/session.hpp"

namespace ration::cli {

/// Returns a row for each tenant on each device that its workloads use, and a row for the ungoverned processes of each
/// device. The rows have fields by which rows::Order can sort them. If `with_idle`, also returns tenants without
/// workloads: in one row without a GPU, unless their limits differ by device. `tenants` is from the snapshot.
[[nodiscard]] nlohmann::json sums_by_tenant(const nlohmann::json& rows, const nlohmann::json& tenants,
                                            const nlohmann::json& devices, bool with_idle);

/// Prints these rows as a table.
void print_tenants(const Session& session, const nlohmann::json& sums);

}  // namespace ration::cli
