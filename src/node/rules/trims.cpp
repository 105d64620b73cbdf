#include "node/rules/trims.hpp"

#include <fmt/format.h>

namespace ration::node {

using history::Event;
using history::plain_event;

namespace {

/// How long a program has for giving back: its library looks ten times a second.
constexpr std::uint64_t kTrimTime = 2'000'000'000;

}  // namespace

void TrimRule::run(NodeState& state, Events& events) {
  waits_ = false;
  for (const auto& [path, workload] : state.registry.workloads()) {
    std::optional<RunningWorkload::Trim>& trim = state.running[path].trim;
    if (!trim) continue;
    if (state.now_ns < trim->since_ns + kTrimTime) {
      waits_ = true;
      continue;
    }
    const Bytes now = sum(workload.used), returned = trim->used - std::min(trim->used, now);
    Event event =
        event_of(state, workload, "trimmed",
                 returned > Bytes{0}
                     ? fmt::format("{}/{} gave back {} of {}", workload.book.tenant, workload.book.name,
                                   format_size(returned), format_size(trim->used))
                     : fmt::format("{}/{} gave back nothing of {}: it uses all of it, or nothing in it co-operates",
                                   workload.book.tenant, workload.book.name, format_size(trim->used)));
    event.bytes = static_cast<std::int64_t>(returned.count());
    event.by = trim->by;
    events.push_back(std::move(event));
    trim.reset();
  }
}

}  // namespace ration::node
