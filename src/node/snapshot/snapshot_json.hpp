// Writes the snapshot as the JSON of docs/http-api.md.
// Promise: only operators see command lines, labels and processes of other users' workloads.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "node/snapshot/snapshot.hpp"

namespace ration::node {

/// The client that asks, with its rights.
struct Viewer {
  bool is_operator = false;
  std::optional<std::uint32_t> user;  ///< absent if unknown (TCP without a token)
  bool totals_only = false;  ///< true if the client is unknown, and the configuration shows such clients totals only
  std::set<std::string> own_books{};  ///< books of the client's container; the client also sees their rows

  [[nodiscard]] bool may_see(std::uint32_t owner) const { return is_operator || (user && *user == owner); }
  [[nodiscard]] bool may_see(const UngovernedView& process) const {
    return is_operator || (process.owner && may_see(*process.owner));
  }
};

/// The reason for a null field of another user's workload.
extern const FixedMessage kNotYours;

/// The reason for a null field that needs a daemon.
extern const FixedMessage kNoDaemon;

inline constexpr std::size_t kAllProcesses = ~std::size_t{0};

[[nodiscard]] nlohmann::json device_json(const DeviceView& device);
/// Returns the rows of `ration ps` as a JSON array: workloads, then ungoverned processes. Lists at most
/// `most_processes` of each workload; `process_count` is their full number.
[[nodiscard]] std::string rows_text(const Snapshot& snapshot, const Viewer& viewer,
                                    std::size_t most_processes = kAllProcesses);
/// Returns the rows of the workload whose book is at `path`.
[[nodiscard]] std::string rows_text_of(const std::string& path, const Snapshot& snapshot, const Viewer& viewer);

}  // namespace ration::node
