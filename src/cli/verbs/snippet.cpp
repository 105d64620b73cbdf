// `ration snippet`: prints configuration that puts other software under a limit.
#include "adapters/containers/snippet.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "adapters/slurm/configuration.hpp"
#include "cli/session/context.hpp"
#include "cli/start/container_edits.hpp"
#include "cli/start/workload_start.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {

namespace {

/// Returns a file of Slurm's, by its place in a package or in a build tree.
std::string slurm_file(const char* installed, const char* built) {
  namespace fs = std::filesystem;
  const fs::path prefix = fs::path(companion("ration")).parent_path().parent_path();
  std::error_code error;
  const fs::path in_build = prefix / built;
  return fs::exists(in_build, error) ? in_build.string() : (prefix / installed).string();
}

Result<int> slurm_node(const Session& session, const SnippetOptions& options) {
  if (options.kind != "slurm")
    return fail("E1708", fmt::format("--node belongs to slurm, not to {}.", options.kind),
                "ration snippet slurm --node NAME", 2);
  const auto machine = session.machine();
  if (!machine) return tl::unexpected(machine.error());
  adapters::slurm::NodeFacts node;
  node.name = options.node;
  node.ration = companion("ration");
  node.plugin = slurm_file("lib/ration/ration_spank.so", "slurm/ration_spank.so");
  node.folder = slurm_file("share/ration/slurm", "../../share/ration/slurm");
  for (const machine::Device& device : machine->devices)
    node.gpus.push_back({device.index, device.name, device.total, !device.mig});
  RATION_TRY(const auto text, adapters::slurm::configuration_of(node));
  fmt::print("{}", text);
  return 0;
}

}  // namespace

Result<int> snippet(const Session& session, const SnippetOptions& options) {
  if (!options.node.empty()) return slurm_node(session, options);
  const admission::PlanRequest& request = options.run.request;
  RATION_TRY(const auto store, session.store());
  RATION_TRY(const auto device, container_device(session, options.run, store));
  adapters::SnippetFacts facts;
  facts.ration = companion("ration");
  facts.device = device.qualified();
  facts.instances = options.instances;
  facts.name = options.name;
  facts.command = options.run.program;
  for (const auto& [name, value] : {std::pair{"--limit", &request.limit},
                                    {"--gpu", &request.gpu},
                                    {"--slice", &request.slice},
                                    {"--tenant", &request.tenant}})
    if (!value->empty()) facts.limit.insert(facts.limit.end(), {name, *value});
  if (request.tenant.empty()) {  // a tenant's limit may change, so the text then names no size
    RunOptions wanted = options.run;
    RATION_TRY(const auto plan, resolve(session, wanted, store));
    facts.bytes = plan.accounts.front().limit;
    facts.context = plan.accounts.front().context.value_or(Bytes{0});
  }
  facts.options = command_options(session.context);
  RATION_TRY(const auto text, adapters::snippet(options.kind, facts));
  fmt::print("{}", text);
  return 0;
}

}  // namespace ration::cli
