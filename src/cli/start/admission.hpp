// What `ration run` agrees with the daemon before it starts a program: who is charged, and, with --wait, when and
// where.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/session/node_client.hpp"
#include "cli/start/run_options.hpp"

namespace ration::cli {

struct Lease {
  std::string id;
  std::string gpus;  ///< `1`, `0,1`: where it may start
};

/// Waits in the queue until `bytes` are free for it; says on standard error what it waits for. Exit code 124 (E1309)
/// when `wait` has passed; E1501 without a daemon.
[[nodiscard]] Result<Lease> wait_for_lease(const Session& session, NodeClient& daemon, const RunOptions& options,
                                           Bytes bytes);

/// A line that begins with `begin`: who holds what a lease waits for, or was promised it. Empty: nobody is known.
[[nodiscard]] std::string takers_line(const Session& session, const nlohmann::json& lease, std::string_view begin);

/// Tells the daemon of the book about to be made; returns the tenant that is charged. `user`: whose
/// work it is, where root asks for somebody else. E1532: it governs other devices than these.
[[nodiscard]] Result<std::string> register_workload(NodeClient& daemon, const std::string& folder,
                                                    const std::string& book, const admission::PlanRequest& wish,
                                                    const std::string& labels, const std::string& lease,
                                                    const std::vector<admission::PlannedAccount>& accounts,
                                                    std::optional<std::uint32_t> user = {});

/// After the book was made: returns when the daemon has seen it. Beside what is guaranteed to others its limit may have
/// to be lower, and a program that is quicker than the daemon would take what is kept for them. A daemon that cannot
/// answer is not a reason not to run, but for a container. `work` is done meanwhile.
Result<void> show_book(NodeClient& daemon, const std::string& folder, const std::string& tenant,
                       const std::string& labels, const std::function<void()>& work);

}  // namespace ration::cli
