#include "trace/view/moment.hpp"

#include <algorithm>
#include <tuple>

namespace ration::trace {
namespace {

struct Addressed {
  std::uint32_t process = 0;
  std::uint64_t address = 0;
  const Block* block = nullptr;
  [[nodiscard]] std::uint64_t end() const {
    return block->bytes > UINT64_MAX - address ? UINT64_MAX : address + block->bytes;
  }
};

/// Returns the blocks of a place that have an address, sorted by process and address. Adds the bytes of all other
/// blocks to `unaddressed`.
std::vector<Addressed> sorted_blocks(const Live& live, Place place, std::uint64_t& unaddressed) {
  std::vector<Addressed> sorted;
  live.each_process([&](std::uint32_t process, const auto& blocks) {
    for (const auto& [address, block] : blocks) {
      if (block.place != place) continue;
      if (block.is_handle)
        unaddressed += block.bytes;
      else
        sorted.push_back({process, address, &block});
    }
  });
  std::sort(sorted.begin(), sorted.end(), [](const Addressed& a, const Addressed& b) {
    return std::tie(a.process, a.address) < std::tie(b.process, b.address);
  });
  return sorted;
}

/// Returns the number of unused addresses before each block; UINT64_MAX before the first block of a process. A block of
/// a driver's pool may lie within the block before it; then there are no unused addresses.
std::vector<std::uint64_t> gaps_before(const std::vector<Addressed>& sorted) {
  std::vector<std::uint64_t> gaps(sorted.size(), UINT64_MAX);
  std::uint64_t end = 0;
  for (std::size_t at = 0; at < sorted.size(); ++at) {
    const bool is_first = at == 0 || sorted[at].process != sorted[at - 1].process;
    if (!is_first) gaps[at] = sorted[at].address > end ? sorted[at].address - end : 0;
    end = is_first ? sorted[at].end() : std::max(end, sorted[at].end());
  }
  return gaps;
}

Holes holes_of(const std::vector<std::uint64_t>& gaps, std::uint64_t longest) {
  Holes holes;
  for (const std::uint64_t gap : gaps) {
    if (gap == 0 || gap > longest) continue;
    holes.bytes += gap;
    holes.largest = std::max(holes.largest, gap);
    ++holes.count;
  }
  return holes;
}

}  // namespace

AddressMap map_of(const Live& live, Place place, std::uint64_t longest, std::size_t most_runs) {
  AddressMap map;
  const std::vector<Addressed> sorted = sorted_blocks(live, place, map.unaddressed);
  const std::vector<std::uint64_t> gaps = gaps_before(sorted);
  map.holes = holes_of(gaps, longest);
  map.blocks = sorted.size();
  // A run ends before one of the largest gaps, or when it has `share` blocks. `share` is the number of all blocks
  // divided by `most_runs`.
  std::uint64_t parting = 0;
  std::size_t share = 0;
  if (sorted.size() > most_runs) {
    std::vector<std::uint64_t> by_size = gaps;
    const auto at = by_size.begin() + static_cast<std::ptrdiff_t>(most_runs);
    std::nth_element(by_size.begin(), at, by_size.end(), std::greater<>());
    parting = std::min(*at, UINT64_MAX - 1);
    share = (sorted.size() + most_runs - 1) / most_runs;
  }
  std::uint64_t largest = 0;
  for (std::size_t at = 0; at < sorted.size(); ++at) {
    const Block& block = *sorted[at].block;
    if (map.runs.empty() || gaps[at] > parting || map.runs.back().count >= share) {
      map.runs.push_back({sorted[at].process, sorted[at].address, 0, 0, 0, block.site, block.time});
      largest = 0;
    }
    Run& run = map.runs.back();
    run.span = std::max(run.span, sorted[at].end() - run.address);
    run.bytes += block.bytes;
    ++run.count;
    run.since = std::min(run.since, block.time);
    if (block.bytes > largest) {
      largest = block.bytes;
      run.site = block.site;
    }
  }
  return map;
}

std::vector<Group> groups_of(const Live& live, Place place, std::size_t most, std::uint64_t& left_out) {
  Groups groups;
  std::uint64_t all = 0;
  live.each_process([&](std::uint32_t process, const auto& blocks) {
    for (const auto& [address, block] : blocks) {
      if (block.place != place) continue;
      groups.add(process, block);
      all += block.bytes;
    }
  });
  std::vector<Group> largest = groups.largest(most);
  left_out = all;
  for (const Group& group : largest) left_out -= group.total();
  return largest;
}

Usage usage_of(const Live& live, Place place, std::uint64_t longest) {
  Usage usage;
  usage.place = place;
  usage.held = live.held(place);
  const std::vector<Addressed> sorted = sorted_blocks(live, place, usage.requested);
  for (const Addressed& each : sorted) usage.requested += each.block->bytes;
  for (const auto& [key, charged] : live.uses(place))
    if (key.second == Use::kContexts || key.second == Use::kCode || key.second == Use::kBefore) usage.fixed += charged;
  usage.holes = holes_of(gaps_before(sorted), longest);
  return usage;
}

}  // namespace ration::trace
