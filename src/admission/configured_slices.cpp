#include "admission/configured_slices.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "admission/slices.hpp"
#include "base/say.hpp"
#include "config/match.hpp"

namespace ration::admission {
namespace {

Result<std::vector<Slice>> wanted_slices(const config::Configuration& configuration, const machine::Device& device) {
  std::vector<Slice> slices;
  const config::DeviceRule* rule = config::device_for(configuration, device.index, device.uuid, device.name);
  if (rule == nullptr || rule->slices.value.empty()) return slices;
  RATION_TRY(const auto shares, parse_shares(device, fmt::format("{}", fmt::join(rule->slices.value, ","))));
  for (const Bytes share : shares)
    slices.push_back({fmt::format("{}.{}", device.index, slices.size()), device.uuid, share, true});
  return slices;
}

bool same(const std::vector<Slice>& left, const std::vector<Slice>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](const Slice& one, const Slice& other) {
    return one.name == other.name && one.size == other.size;
  });
}

/// Cuts one device. Returns an empty message if the device needs no change.
Result<Message> apply_to(const machine::Device& device, const book::Store& store, const std::vector<Slice>& wanted) {
  RATION_TRY(auto present, read_slices(store));
  std::erase_if(present, [&](const Slice& slice) { return slice.uuid != device.uuid; });
  const bool by_hand = std::any_of(present.begin(), present.end(), [](const Slice& each) { return !each.configured; });
  if (by_hand || same(present, wanted)) return Message();
  const auto books = store.list();
  for (const Slice& slice : present)
    if (const auto* inside = occupant(books, slice.name); inside != nullptr)
      return say<"slices.kept">("gpu"_is(device.index), "workload"_is(inside->contents.name), "slice"_is(slice.name));
  RATION_TRY(write_slices(store, device, wanted));
  if (wanted.empty()) return say<"slices.removed">("gpu"_is(device.index));
  std::vector<Bytes> sizes;
  for (const Slice& slice : wanted) sizes.push_back(slice.size);
  return say<"slices.cut">("gpu"_is(device.index), "slices_bytes"_is(sizes));
}

}  // namespace

std::vector<Message> apply_configured_slices(const book::Store& store, const config::Configuration& configuration,
                                             const std::vector<machine::Device>& devices) {
  std::vector<Message> sentences;
  for (const machine::Device& device : devices) {
    const auto wanted = wanted_slices(configuration, device);
    const auto done = wanted ? apply_to(device, store, *wanted) : tl::unexpected(wanted.error());
    if (!done)
      sentences.push_back(say<"slices.not_cut">("gpu"_is(device.index), "reason"_is(done.error().what)));
    else if (!done->empty())
      sentences.push_back(*done);
  }
  return sentences;
}

}  // namespace ration::admission
