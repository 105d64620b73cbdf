#include "trace/kind_names.hpp"

namespace ration::trace {
namespace {

struct KindName {
  Kind kind;
  const char* name;
};
constexpr KindName kKinds[] = {
    {Kind::kAllocate, "allocate"},
    {Kind::kFree, "free"},
    {Kind::kContextMade, "context made"},
    {Kind::kContextEnded, "context ended"},
    {Kind::kVirtualCreate, "virtual create"},
    {Kind::kVirtualRelease, "virtual release"},
    {Kind::kVirtualMap, "virtual map"},
    {Kind::kVirtualUnmap, "virtual unmap"},
    {Kind::kPoolGrew, "pool grew"},
    {Kind::kPoolTrimmed, "pool trimmed"},
    {Kind::kGraph, "graph"},
    {Kind::kExported, "exported"},
    {Kind::kImported, "imported"},
    {Kind::kCode, "code"},
    {Kind::kDenied, "denied"},
    {Kind::kWaited, "waited"},
    {Kind::kRefused, "failed in the driver"},
    {Kind::kLimitChanged, "limit changed"},
    {Kind::kAsked, "asked how much there is"},
    {Kind::kMark, "mark"},
    {Kind::kRangeBegan, "range began"},
    {Kind::kRangeEnded, "range ended"},
    {Kind::kProcessBegan, "process began"},
    {Kind::kProcessEnded, "process ended"},
};

}  // namespace

const char* name_of(Kind kind) {
  for (const KindName& each : kKinds)
    if (each.kind == kind) return each.name;
  return "unknown";
}

std::optional<Kind> kind_named(std::string_view name) {
  for (const KindName& each : kKinds)
    if (each.name == name) return each.kind;
  return std::nullopt;
}

}  // namespace ration::trace
