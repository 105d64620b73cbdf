// What a change of limits did, as numbers and as sentences. Used by the HTTP interface and, where no daemon runs, by
// `ration set`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"

namespace ration::node {

/// What a change did, or would do, on one device.
struct LimitChanged {
  std::string path;  ///< of its book
  std::string workload;
  std::optional<int> gpu;  ///< absent: the device is not on this machine
  Bytes old_limit, limit, effective, old_guarantee, guarantee, used;
  std::optional<Bytes> device_free;  ///< absent: the driver could not be asked
  std::string held_back_by;          ///< why effective < limit; empty: it is not
};

/// E1305: the guarantee would be more than the limit.
[[nodiscard]] Result<void> check_amounts(const LimitChanged& change);

/// `{"changes":[…],"consequences":[{"level","text"}]}`. `applied`: it was done, not only thought through.
[[nodiscard]] nlohmann::json changes_json(const std::vector<LimitChanged>& changes, bool applied);

}  // namespace ration::node
