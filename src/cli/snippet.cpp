// `ration snippet`: what goes into other people's configuration so that their programs run under a limit.
#include "engine/snippet.hpp"

#include <fmt/format.h>

#include "base/command.hpp"
#include "cli/container_edits.hpp"
#include "cli/verbs.hpp"
#include "cli/workload_start.hpp"

namespace ration::cli {

Result<int> snippet(const Session& session, const SnippetOptions& options) {
  const policy::Wish& wish = options.run.wish;
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  const auto device = container_device(session, options.run, *store);
  if (!device) return tl::unexpected(device.error());
  engine::SnippetFacts facts;
  facts.ration = companion("ration");
  facts.device = device->qualified();
  facts.instances = options.instances;
  facts.name = options.name;
  facts.command = options.run.program;
  for (const auto& [name, value] :
       {std::pair{"--limit", &wish.limit}, {"--gpu", &wish.gpu}, {"--slice", &wish.slice}, {"--tenant", &wish.tenant}})
    if (!value->empty())
      facts.limit += fmt::format("{}{} {}", facts.limit.empty() ? "" : " ", name, shell_word(*value));
  if (wish.tenant.empty()) {  // what a tenant may hold changes
    RunOptions wanted = options.run;
    const auto plan = resolve(session, wanted, *store);
    if (!plan) return tl::unexpected(plan.error());
    facts.bytes = plan->accounts.front().limit;
    facts.context = plan->accounts.front().context.value_or(Bytes{0});
  }
  const auto text = engine::snippet(options.kind, facts);
  if (!text) return tl::unexpected(text.error());
  fmt::print("{}", session.hint(*text));
  return 0;
}

}  // namespace ration::cli
