// The agreement of `ration run` with the daemon before it starts a program: the tenant that is charged and, with
// --wait, the time and the GPUs of the start.
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
  std::string gpus;  ///< GPUs on which the program may start: `1`, `0,1`
};

/// Waits in the queue until `bytes` are free, and prints on standard error what it waits for. Returns E1309 (exit code
/// 124) after the time in `options.wait`, E1501 without a daemon.
[[nodiscard]] Result<Lease> wait_for_lease(const Session& session, NodeClient& daemon, const RunOptions& options,
                                           Bytes bytes);

/// Returns a line that starts with `begin`. It names the holders of the memory that a lease waits for, and what is
/// promised to each; empty if no holder is known.
[[nodiscard]] std::string holders_line(const Session& session, const nlohmann::json& lease, std::string_view begin);

/// Returns the lease, such as `q-5`, of a run that waits under this name (NAME, TENANT/NAME or USER/NAME); empty if
/// none does.
[[nodiscard]] std::string lease_waiting_as(const Session& session, const std::string& name);

/// Returns E1801 for a name that no running workload and no tenant has: names the nearest one that exists or, if a run
/// waits under the name, its place in the queue.
[[nodiscard]] Error unknown_name(const Session& session, const std::string& name);

/// Registers a book with the daemon before it is made, and returns the tenant that is charged. `user` is the owner
/// if root starts another user's work. Fails with E1532 if the daemon governs other devices.
[[nodiscard]] Result<std::string> register_workload(NodeClient& daemon, const std::string& folder,
                                                    const std::string& book, const admission::PlanRequest& request,
                                                    const std::string& labels, const std::string& lease,
                                                    const std::vector<admission::PlannedAccount>& accounts,
                                                    std::optional<std::uint32_t> user = {});

/// Shows a new book to the daemon, calls `work`, and returns once the daemon has read the book. The program must not
/// start earlier: the daemon may lower its limit for guarantees of others, and until then the program could take memory
/// that is kept for them. Returns true if a policy wants the run recorded to `recording`, which is empty if the run
/// cannot be recorded. A failure stops the start of a container; a program starts all the same.
Result<bool> show_book(NodeClient& daemon, const std::string& folder, const std::string& book,
                       const std::string& tenant, const std::string& labels, const std::string& recording,
                       const std::function<void()>& work);

/// Returns the file for the recording that a policy may want: in the user's own state folder. The daemon takes the
/// recording from there. Returns an empty text if there is no such folder.
[[nodiscard]] std::string policy_recording(const std::string& workload, std::uint64_t run);

}  // namespace ration::cli
