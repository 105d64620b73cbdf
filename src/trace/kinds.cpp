#include "trace/kinds.hpp"

#include <array>

namespace ration::trace {
namespace {

struct KindFacts {
  Kind kind;
  const char* name;
  Use use = Use::kBlocks;   ///< use of the charged bytes, if they are device memory of one process
  Part part = Part::kRest;  ///< part to which the charged bytes belong, if they have no block of their own
};

/// The facts by the number of the kind, which begins at 1.
constexpr std::array kKinds{
    KindFacts{Kind::kAllocate, "allocate"},
    KindFacts{Kind::kFree, "free"},
    KindFacts{Kind::kContextMade, "context made", Use::kContexts, Part::kContext},
    KindFacts{Kind::kContextEnded, "context ended", Use::kContexts, Part::kContext},
    KindFacts{Kind::kVirtualCreate, "virtual create", Use::kVirtual},
    KindFacts{Kind::kVirtualRelease, "virtual release", Use::kVirtual},
    KindFacts{Kind::kVirtualMap, "virtual map", Use::kVirtual},
    KindFacts{Kind::kVirtualUnmap, "virtual unmap", Use::kVirtual},
    KindFacts{Kind::kPoolGrew, "pool grew", Use::kPools, Part::kPool},
    KindFacts{Kind::kPoolTrimmed, "pool trimmed", Use::kPools, Part::kPool},
    KindFacts{Kind::kGraph, "graph", Use::kPools, Part::kGraph},  // graphs have pools of their own
    KindFacts{Kind::kExported, "exported"},
    KindFacts{Kind::kImported, "imported"},
    KindFacts{Kind::kCode, "code", Use::kCode, Part::kCode},
    KindFacts{Kind::kDenied, "denied"},
    KindFacts{Kind::kWaited, "waited"},
    KindFacts{Kind::kRefused, "failed in the driver"},
    KindFacts{Kind::kLimitChanged, "limit changed"},
    KindFacts{Kind::kAsked, "asked how much there is"},
    KindFacts{Kind::kMark, "mark"},
    KindFacts{Kind::kRangeBegan, "range began"},
    KindFacts{Kind::kRangeEnded, "range ended"},
    KindFacts{Kind::kProcessBegan, "process began"},
    KindFacts{Kind::kProcessEnded, "process ended"},
    KindFacts{Kind::kHeldBefore, "held before", Use::kBefore},
};
constexpr bool in_order() {
  for (std::size_t at = 0; at < kKinds.size(); ++at)
    if (static_cast<std::size_t>(kKinds[at].kind) != at + 1) return false;
  return true;
}
static_assert(in_order());

/// Returns the facts of a kind; nullptr for a kind that only a later version has.
const KindFacts* facts_of(Kind kind) {
  const std::size_t at = static_cast<std::size_t>(kind) - 1;
  return at < kKinds.size() ? &kKinds[at] : nullptr;
}

}  // namespace

const char* name_of(Use use) {
  constexpr std::array<const char*, kUses> kNames{"blocks",  "pools",  "virtual",     "contexts",   "code",
                                                  "managed", "shared", "pinned host", "held before"};
  return kNames[static_cast<std::size_t>(use)];
}

const char* name_of(Kind kind) {
  const KindFacts* facts = facts_of(kind);
  return facts != nullptr ? facts->name : "unknown";
}

const char* name_of(Asked function) {
  constexpr std::array<const char*, 4> kNames{"", "cuMemGetInfo", "cuDeviceTotalMem", "NVML"};
  const auto at = static_cast<std::size_t>(function);
  return at < kNames.size() ? kNames[at] : "?";
}

std::optional<Kind> kind_named(std::string_view name) {
  for (const KindFacts& each : kKinds)
    if (each.name == name) return each.kind;
  return std::nullopt;
}

Use use_of(const Event& event, const Header& header) {
  if (event.account == Account::kPinnedHost) return Use::kHost;
  if (event.account == Account::kManaged) return Use::kManaged;
  if (event.process < header.processes.size() && header.processes[event.process].pid == 0 && header.booked)
    return Use::kShared;
  const KindFacts* facts = facts_of(event.kind);
  return facts != nullptr ? facts->use : Use::kBlocks;
}

Part part_of(Kind kind) {
  const KindFacts* facts = facts_of(kind);
  return facts != nullptr ? facts->part : Part::kRest;
}

}  // namespace ration::trace
