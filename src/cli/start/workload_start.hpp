// What a program needs before it runs under a limit: a plan, the variables that put the guard in front of its driver,
// and a book. Used by `ration run`, and by `ration activate` for a program that runs already.
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

/// Whether what a context costs is measured where it is not known: that makes one on the GPU.
enum class Measuring { kNo, kYes };

/// The plan for `options`, with what the configuration says where nothing was typed, and with the variables of the
/// guard and of the simulated node. Changes nothing.
/// `options.wish.gpu` then names the GPUs, and `options.asked_gpus` what the daemon's queue is to be asked for.
[[nodiscard]] Result<admission::Plan> resolve(const Session& session, RunOptions& options, const book::Store& store,
                                              Measuring measuring = Measuring::kYes);

/// The folder of the guard (`shim`) or the simulator (`sim`) as LD_PRELOAD can name it: a path with a space or a colon
/// goes through a link in the runtime folder. E1424.
[[nodiscard]] Result<std::string> preloadable_folder(const book::Store& store, const std::string& kind);

/// What its workload is called; one that was given no name gets its number behind that (`python-17`).
[[nodiscard]] std::string workload_name(const RunOptions& options);

/// The simulated driver and, where the program has a CUDA runtime, the simulated one in front of that.
[[nodiscard]] Result<void> add_simulation(const Session& session, const book::Store& store, const std::string& program,
                                          const std::string& versions, admission::Plan& plan);

/// A workload whose book is made.
struct Started {
  std::string book;  ///< its path
  admission::Plan plan;
};

/// Checks and enters promises, takes the name, tells the daemon, makes the book. `lease`: of the daemon's queue; may be
/// empty. `daemon` is reset where it governs another node. `creator`: with whom the workload ends; absent: this
/// process. `bring`: brings the book to where the workload looks for it, while the daemon takes it up; where that
/// fails, or the daemon has not seen it, the book is taken away again.
[[nodiscard]] Result<Started> start_workload(const Session& session, RunOptions& options, const book::Store& store,
                                             const std::string& lease, std::optional<NodeClient>& daemon,
                                             const std::optional<ProcessIdentity>& creator = {},
                                             const std::function<Result<void>(const std::string&)>& bring = {});

}  // namespace ration::cli
