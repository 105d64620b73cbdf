// `ration env`, `ration sim env` and `ration activate`: print the variables of a limit and of a simulated node, for
// shells and programs that set them themselves.
#include <fmt/format.h>
#include <unistd.h>

#include "cli/start/launch.hpp"
#include "cli/start/workload_start.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {

Result<int> env(const Session& session, RunOptions options) {
  RATION_TRY(const auto store, session.store());
  RATION_TRY(const auto plan, resolve(session, options, store));
  if (session.format() == Format::kJson) {
    session.print_json("env", {{"sets", plan.sets}, {"keeps", plan.keeps}});
    return 0;
  }
  fmt::print("# the variables that `ration run` sets for the program; at the start it also sets RATION_BOOK\n");
  for (const auto& [name, value] : plan.sets) fmt::print("export {}='{}'\n", name, value);
  for (const auto& [name, value] : plan.keeps) fmt::print("# kept: {}={}\n", name, value);
  return 0;
}

Result<int> simulation(const Session& session, const SimulationOptions& options,
                       const std::vector<std::string>& program) {
  RATION_TRY(const auto store, session.store());
  RATION_TRY(session.machine());
  admission::Plan plan;
  const std::string first = program.empty() ? "" : program.front();
  if (auto good = add_simulation(session, store, first, options.cuda, plan); !good) return tl::unexpected(good.error());
  if (session.format() == Format::kJson) {
    session.print_json("sim", {{"sets", plan.sets}, {"simulation", plan.simulation}});
    return 0;
  }
  fmt::print("# simulated: {}; without a limit\n", plan.simulation);
  for (const auto& [name, value] : plan.sets) fmt::print("export {}='{}'\n", name, value);
  return 0;
}

Result<int> activate(const Session& session, RunOptions options) {
  RATION_TRY(const auto store, session.store());
  RATION_TRY(const auto machine, session.machine());
  const auto program = identity_of(::getppid());
  if (!program) return fail("E1446", "the program that asked for a limit has ended.", "Start it again.", 125);
  options.program = words_of_process(program->pid);
  // The book has every GPU, since the program may still change CUDA_VISIBLE_DEVICES before it starts the driver.
  for (const auto& device : machine.devices)
    options.request.gpu += fmt::format("{}{}", options.request.gpu.empty() ? "" : ",", device.index);
  RATION_TRY(auto daemon, NodeClient::find(session));
  RATION_TRY(auto started, start_workload(session, options, store, "", daemon, program));
  auto& sets = started.plan.sets;
  for (const char* choice : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}) sets.erase(choice);
  sets["RATION_BOOK"] = started.book;
  for (const auto& [name, value] : sets) fmt::print("{}={}{}", name, value, '\0');
  return 0;
}

}  // namespace ration::cli
