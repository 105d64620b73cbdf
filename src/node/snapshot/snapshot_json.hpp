// The snapshot as the JSON of docs/http-api.md. Used by the HTTP interface and, through it, by every face.
// Promise: a viewer gets the command lines, labels and processes of their own workloads only, unless they are an
// operator.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "node/snapshot/snapshot.hpp"

namespace ration::node {

/// Who asks.
struct Viewer {
  bool is_operator = false;
  std::optional<std::uint32_t> user;  ///< absent: nobody known (TCP without a token)
  bool totals_only = false;           ///< nobody known, and not configured to see more
  std::set<std::string> own_books{};  ///< books of the container that asks: their rows are shown beside totals

  [[nodiscard]] bool may_see(std::uint32_t owner) const { return is_operator || (user && *user == owner); }
};

/// Why a field of somebody else's is null.
inline constexpr const char* kNotYours = "not yours";

/// Why a field that only a daemon knows is null.
inline constexpr const char* kNoDaemon = "no daemon runs: ration serve";

inline constexpr std::size_t kAllProcesses = ~std::size_t{0};

[[nodiscard]] nlohmann::json device_json(const DeviceView& device);
/// Rows of `ration ps`, a JSON array: workloads, then processes in no book. `most_processes`: named of each workload;
/// `process_count` says how many there are.
[[nodiscard]] std::string rows_text(const Snapshot& snapshot, const Viewer& viewer,
                                    std::size_t most_processes = kAllProcesses);
/// The same of one workload, by the path of its book.
[[nodiscard]] std::string rows_text_of(const std::string& path, const Snapshot& snapshot, const Viewer& viewer);

}  // namespace ration::node
