#include "trace/difference.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

namespace ration::trace {
namespace {

/// The key of two amounts, one of each recording: place, name, and bytes of one block.
using Key = std::tuple<std::optional<Place>, std::string, std::uint64_t>;
using Both = std::map<Key, std::pair<Amount, Amount>>;

void add(Amount& amount, std::int64_t bytes, std::uint64_t count) {
  amount.bytes += bytes;
  amount.count += count;
}

/// Adds groups of blocks, each under its innermost call.
void add_groups(Both& both, const std::vector<Group>& groups, const std::optional<Place>& place, const Header& header,
                Amount std::pair<Amount, Amount>::*side) {
  for (const Group& group : groups) {
    std::string site = group.site < header.sites.size() ? header.sites[group.site] : "";
    site.resize(std::min(site.find('\n'), site.size()));
    add(both[{place, site, group.bytes}].*side, static_cast<std::int64_t>(group.total()), group.count);
  }
}

/// Appends the amounts that differ, the largest change first. For kPeak, appends all amounts instead, in order of
/// place.
void append(std::vector<Difference>& changes, Compared what, const Both& both) {
  const auto from = static_cast<std::ptrdiff_t>(changes.size());
  for (const auto& [key, amounts] : both)
    if (amounts.first != amounts.second || what == Compared::kPeak)
      changes.push_back({what, std::get<0>(key), std::get<1>(key), std::get<2>(key), amounts.first, amounts.second});
  if (what == Compared::kPeak) return;
  const auto size = [](const Difference& change) { return std::abs(change.after.bytes - change.before.bytes); };
  std::stable_sort(changes.begin() + from, changes.end(),
                   [&](const Difference& a, const Difference& b) { return size(a) > size(b); });
}

}  // namespace

std::vector<Difference> difference(const Inspected& before, const Inspected& after) {
  Both peaks, uses, blocks, unfreed;
  const auto take = [&](const Inspected& one, Amount std::pair<Amount, Amount>::*side) {
    for (const Held& held : one.inspection.held) {
      add(peaks[{held.place, "", 0}].*side, held.charged, 0);
      for (const Share& part : held.parts) add(uses[{held.place, name_of(part.use), 0}].*side, part.charged, 0);
      add_groups(blocks, held.largest, held.place, one.header, side);
    }
    add_groups(unfreed, one.inspection.overview.never_freed, std::nullopt, one.header, side);
  };
  take(before, &std::pair<Amount, Amount>::first);
  take(after, &std::pair<Amount, Amount>::second);
  const Overview &old = before.inspection.overview, &now = after.inspection.overview;
  std::vector<Difference> changes{{Compared::kEvents, {}, "", 0, {0, old.events}, {0, now.events}},
                                  {Compared::kDenied, {}, "", 0, {0, old.denial_count}, {0, now.denial_count}}};
  append(changes, Compared::kPeak, peaks);
  append(changes, Compared::kUse, uses);
  append(changes, Compared::kBlocks, blocks);
  append(changes, Compared::kNeverFreed, unfreed);
  return changes;
}

}  // namespace ration::trace
