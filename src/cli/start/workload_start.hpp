// The start of a workload: a plan, the variables that put the guard in front of the driver, and a book. Used by
// `ration run`, and by `ration activate` for a program that runs already.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "admission/plan.hpp"
#include "base/process.hpp"
#include "book/store.hpp"
#include "cli/session/node_client.hpp"
#include "cli/start/run_options.hpp"

namespace ration::cli {

/// The action if the cost of a context is not known: leave it unknown, or measure it by making a context on the GPU.
enum class Measuring { kNo, kYes };

/// Returns the plan for `options`, with the configuration's values where nothing was typed, and with the variables of
/// the guard and of the simulated node. Enters the chosen GPUs in `options.request.gpu`, and the GPUs to ask the
/// daemon's queue for in `options.asked_gpus`. Changes nothing else.
[[nodiscard]] Result<admission::Plan> resolve(const Session& session, RunOptions& options, const book::Store& store,
                                              Measuring measuring = Measuring::kYes);

/// Returns the folder of the guard (`shim`) or the simulator (`sim`) by a path that LD_PRELOAD can carry. If the
/// folder's own path has a space or a colon, makes a link in the runtime folder and returns its path. Fails with E1424.
[[nodiscard]] Result<std::string> preloadable_folder(const book::Store& store, const std::string& kind);

/// Returns the name of the workload. Without --name, returns the program's name, to which the number of the run is
/// added later (`python-17`).
[[nodiscard]] std::string workload_name(const RunOptions& options);

/// Adds the simulated driver to the plan and, where the program has a CUDA runtime, the simulated runtime in front of
/// it.
[[nodiscard]] Result<void> add_simulation(const Session& session, const book::Store& store, const std::string& program,
                                          const std::string& versions, admission::Plan& plan);

/// A workload that has its book.
struct Started {
  std::string book;  ///< path of the book
  admission::Plan plan;
  std::string recording;  ///< the file for the recording that a policy wants; empty if no policy does
};

/// Checks and enters promises, takes the name, registers with the daemon and makes the book. `lease` names a place in
/// the daemon's queue and may be empty. Resets `daemon` if it governs another node. The workload ends with `creator`,
/// or with this process if `creator` is absent. `bring` puts the book where the workload looks for it; the daemon reads
/// the book at the same time. If `bring` fails, or the daemon fails to read a book that `bring` has placed, removes the
/// book again.
[[nodiscard]] Result<Started> start_workload(const Session& session, RunOptions& options, const book::Store& store,
                                             const std::string& lease, std::optional<NodeClient>& daemon,
                                             const std::optional<ProcessIdentity>& creator = {},
                                             const std::function<Result<void>(const std::string&)>& bring = {});

}  // namespace ration::cli
