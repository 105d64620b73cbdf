#include "guard/hooks/graph_schedule.hpp"

#include <algorithm>

#include "base/bytes.hpp"

namespace ration::guard {
namespace {

// The largest graph whose order is taken into account. For a larger graph the sizes of all allocations are added, so
// that instantiating takes neither seconds nor much host memory.
constexpr std::size_t kMostAllocations = 8192;
constexpr std::size_t kMostWords = std::size_t{8} << 20;

std::uint64_t sum(std::uint64_t left, std::uint64_t right) noexcept {
  return std::min(left + right, kUnlimited.count());  // both operands are at most kUnlimited
}

}  // namespace

void GraphSchedule::add_edge(Node before, Node after) noexcept { whole_ = edges_.push_back({before, after}) && whole_; }

void GraphSchedule::take(Node at, std::uint64_t address, std::uint64_t bytes, int device) noexcept {
  Allocation made;
  made.address = address;
  made.bytes = std::min(bytes, kUnlimited.count());
  made.device = device;
  made.taken_at = at;
  whole_ = allocations_.push_back(made) && whole_;
}

void GraphSchedule::free(Node at, std::uint64_t address) noexcept {
  whole_ = frees_.push_back({at, address}) && whole_;
}

void GraphSchedule::match_frees() noexcept {
  const auto before = [](const Allocation& allocation, std::uint64_t address) { return allocation.address < address; };
  std::sort(allocations_.begin(), allocations_.end(),
            [](const Allocation& left, const Allocation& right) { return left.address < right.address; });
  for (const Free& free : frees_) {
    Allocation* found = std::lower_bound(allocations_.begin(), allocations_.end(), free.address, before);
    if (found != allocations_.end() && found->address == free.address)
      found->freed_at = free.at;
    else
      whole_ = frees_of_others_.push_back(free.address) && whole_;
  }
}

bool GraphSchedule::waits_for(Node node, std::size_t bit) const noexcept {
  return (ancestors_[node * words_ + bit / 64] >> bit % 64 & 1) != 0;
}

/// Finds the allocations and frees that each node waits for. Returns false if the graph is too large or its order has a
/// cycle.
bool GraphSchedule::find_ancestors() noexcept {
  words_ = (2 * allocations_.size() + 63) / 64;
  if (allocations_.size() > kMostAllocations || words_ * nodes_ > kMostWords) return false;
  MappedArray<std::uint64_t> own;  // one bit per node, counted from 1
  MappedArray<std::uint32_t> waiting, first, order;
  if (!ancestors_.resize(words_ * nodes_) || !own.resize(nodes_) || !waiting.resize(nodes_) ||
      !first.resize(nodes_ + std::size_t{1}) || !order.resize(nodes_))
    return false;
  for (std::size_t i = 0; i < allocations_.size(); ++i) {
    own[allocations_[i].taken_at] = i + 1;
    if (allocations_[i].freed_at != kNever) own[allocations_[i].freed_at] = bit_of_free(i) + 1;
  }
  std::sort(edges_.begin(), edges_.end(),
            [](const Edge& left, const Edge& right) { return left.before < right.before; });
  for (const Edge& edge : edges_) {
    ++waiting[edge.after];
    ++first[edge.before + std::size_t{1}];
  }
  for (Node node = 0; node < nodes_; ++node) first[node + std::size_t{1}] += first[node];
  std::size_t reached = 0;
  for (Node node = 0; node < nodes_; ++node) {
    if (waiting[node] == 0) order[reached++] = node;
  }
  for (std::size_t done = 0; done < reached; ++done) {
    const Node node = order[done];
    for (std::size_t edge = first[node]; edge < first[node + std::size_t{1}]; ++edge) {
      const Node after = edges_[edge].after;
      for (std::size_t word = 0; word < words_; ++word) {
        ancestors_[after * words_ + word] |= ancestors_[node * words_ + word];
      }
      if (own[node] != 0) ancestors_[after * words_ + (own[node] - 1) / 64] |= std::uint64_t{1} << (own[node] - 1) % 64;
      if (--waiting[after] == 0) order[reached++] = after;
    }
  }
  return reached == nodes_;
}

std::uint32_t GraphSchedule::group_of(std::uint32_t allocation) noexcept {
  while (groups_[allocation] != allocation) allocation = groups_[allocation] = groups_[groups_[allocation]];
  return allocation;
}

/// Groups the allocations that may reuse bytes of one another; no two groups share bytes.
void GraphSchedule::group() noexcept {
  const auto count = static_cast<std::uint32_t>(allocations_.size());
  for (std::uint32_t i = 0; i < count; ++i) groups_[i] = i;
  for (std::uint32_t later = 0; later < count; ++later) {
    for (std::uint32_t sooner = 0; sooner < count; ++sooner) {
      if (allocations_[later].device != allocations_[sooner].device ||
          !waits_for(allocations_[later].taken_at, bit_of_free(sooner)))
        continue;
      groups_[group_of(sooner)] = group_of(later);
    }
  }
}

void GraphSchedule::measure() noexcept {
  const auto count = static_cast<std::uint32_t>(allocations_.size());
  for (std::uint32_t taken = 0; taken < count; ++taken) {
    const std::uint32_t group = group_of(taken);
    std::uint64_t held = 0;
    for (std::uint32_t other = 0; other < count; ++other) {
      if (group_of(other) != group) continue;
      const bool is_gone = waits_for(allocations_[taken].taken_at, bit_of_free(other));
      const bool is_later = waits_for(allocations_[other].taken_at, taken);
      if (!is_gone && !is_later) held = sum(held, allocations_[other].bytes);
    }
    allocations_[group].most = std::max(allocations_[group].most, held);
  }
}

void GraphSchedule::settle() noexcept {
  match_frees();
  if (groups_.resize(allocations_.size()) && find_ancestors()) {
    group();
    measure();
  } else {
    for (Allocation& allocation : allocations_) allocation.most = allocation.bytes;
  }
}

std::uint64_t GraphSchedule::most(int device) const noexcept {
  std::uint64_t total = 0;
  for (const Allocation& allocation : allocations_) {
    if (allocation.device == device) total = sum(total, allocation.most);
  }
  return total;
}

}  // namespace ration::guard
