#include "pool/run_heap.hpp"

#include <algorithm>
#include <bit>

namespace ration::pool {
namespace {

std::uint32_t aligned_up(std::uint32_t unit, std::uint32_t alignment) noexcept {
  return (unit + alignment - 1) / alignment * alignment;
}

}  // namespace

RunHeap::RunHeap(std::uint32_t units)
    : units_(units), index_memory_(std::size_t{units} + 2), index_(index_memory_.data() + 1), nodes_(1) {}

// ----------------------------------------------------------------------------------------------- taking, releasing

bool RunHeap::take(std::uint32_t count, std::uint32_t alignment, StreamTag tag, Run& out) {
  const Bins* bins = find_bins(tag);
  if (bins == nullptr || bins->units < count) return false;
  const std::uint32_t index = suitable(*bins, count, alignment);
  if (index == kNone) return false;
  const Run whole{nodes_[index].start, nodes_[index].count};
  const std::uint32_t start = alignment == 1 ? whole.start : aligned_up(whole.start, alignment);
  const std::uint32_t before = start - whole.start, after = whole.count - before - count;
  out = {start, count};
  if (before == 0 && after > 0) {  // the rest of the run keeps its node, and nearly always its list
    resize(index, {start + count, after});
    index_[start] = new_node(out, State::kHeld, tag);
    return true;
  }
  unlink(index);
  nodes_[index].start = start;
  nodes_[index].count = count;
  nodes_[index].state = State::kHeld;
  index_[start] = index;
  if (before > 0) link_new({whole.start, before}, tag);
  if (after > 0) link_new({start + count, after}, tag);
  return true;
}

Run RunHeap::held(std::uint32_t unit) const noexcept {
  if (unit >= units_) return {};
  const std::uint32_t index = index_[unit];
  if (index >= nodes_.size() || nodes_[index].state != State::kHeld || nodes_[index].start != unit) return {};
  return {unit, nodes_[index].count};
}

void RunHeap::release(std::uint32_t unit, StreamTag tag) {
  const std::uint32_t index = index_[unit];
  free_run({unit, nodes_[index].count}, tag, index);
}

void RunHeap::add(Run run, StreamTag tag) { free_run(run, tag, kNone); }

/// Frees a run and joins it with its free neighbours of the same tag. `own_node` is the node that the run had while it
/// was held.
void RunHeap::free_run(Run run, StreamTag tag, std::uint32_t own_node) {
  if (find_bins(tag) == nullptr) make_bins(tag);
  const std::uint32_t before = free_node_ending_at(run.start, tag);
  const std::uint32_t after = free_node_starting_at(run.start + run.count, tag);
  if (before == kNone && after == kNone) {
    if (own_node == kNone) {
      own_node = new_node(run, State::kFree, tag);  // mark_ends() below enters it in the index
    } else {
      nodes_[own_node].state = State::kFree;
      nodes_[own_node].tag = tag;
    }
    mark_ends(own_node);
    link(own_node);
    return;
  }
  if (own_node != kNone) drop_node(own_node);
  if (before == kNone) {
    resize(after, {run.start, run.count + nodes_[after].count});
    return;
  }
  std::uint32_t count = nodes_[before].count + run.count;
  if (after != kNone) {
    count += nodes_[after].count;
    unlink(after);
    drop_node(after);
  }
  resize(before, {nodes_[before].start, count});
}

/// Changes the bounds of a free run. The run moves to another list only if its size requires it.
void RunHeap::resize(std::uint32_t index, Run run) noexcept {
  Node& node = nodes_[index];
  if (run.start != node.start) index_[run.start] = index;
  if (run.start + run.count != node.start + node.count) index_[run.start + run.count - 1] = index;
  if (bin_of(run.count) == Bin{node.first, node.second}) {
    find_bins(node.tag)->units += run.count - node.count;
    free_units_ += run.count - node.count;
    node.start = run.start;
    node.count = run.count;
  } else {
    unlink(index);
    node.start = run.start;
    node.count = run.count;
    link(index);
  }
}

void RunHeap::remove(std::uint32_t start, Run part) {
  const std::uint32_t index = index_[start];
  unlink(index);
  const Node whole = nodes_[index];
  drop_node(index);
  index_[part.start] = index_[part.start + part.count - 1] = kNone;
  if (const std::uint32_t before = part.start - whole.start; before > 0) link_new({whole.start, before}, whole.tag);
  const std::uint32_t end = part.start + part.count;
  if (const std::uint32_t after = whole.start + whole.count - end; after > 0) link_new({end, after}, whole.tag);
}

void RunHeap::retag(StreamTag from, StreamTag to) {
  if (from == to || find_bins(from) == nullptr) return;
  std::vector<std::uint32_t> moving;
  for (std::uint32_t index = 1; index < nodes_.size(); ++index) {
    if (nodes_[index].state == State::kFree && nodes_[index].tag == from) moving.push_back(index);
  }
  for (const std::uint32_t index : moving) {
    unlink(index);
    free_run({nodes_[index].start, nodes_[index].count}, to, index);
  }
}

// ------------------------------------------------------------------------------------------------------ inspection

std::uint32_t RunHeap::free_units(StreamTag tag) const noexcept {
  const Bins* bins = find_bins(tag);
  return bins != nullptr ? bins->units : 0;
}

std::uint32_t RunHeap::largest_free() const noexcept {
  std::uint32_t largest = 0;
  for (std::size_t tag = 0; tag <= other_bins_.size(); ++tag) {
    const Bins* bins = find_bins(static_cast<StreamTag>(tag));
    if (bins == nullptr || bins->first_map == 0) continue;
    const int first = std::bit_width(bins->first_map) - 1;
    const int second = std::bit_width(bins->second_map[static_cast<std::size_t>(first)]) - 1;
    for (std::uint32_t index = bins->head[static_cast<std::size_t>(first)][static_cast<std::size_t>(second)];
         index != kNone; index = nodes_[index].next) {
      largest = std::max(largest, nodes_[index].count);
    }
  }
  return largest;
}

Run RunHeap::free_before(std::uint32_t unit, StreamTag tag) const noexcept {
  const std::uint32_t index = free_node_ending_at(unit, tag);
  return index == kNone ? Run{} : Run{nodes_[index].start, nodes_[index].count};
}

Run RunHeap::free_at(std::uint32_t unit, StreamTag tag) const noexcept {
  const std::uint32_t index = free_node_starting_at(unit, tag);
  return index == kNone ? Run{} : Run{nodes_[index].start, nodes_[index].count};
}

// ---------------------------------------------------------------------------------------------------------- lists

RunHeap::Bin RunHeap::bin_of(std::uint32_t count) noexcept {
  if (count < kSecond) return {0, static_cast<std::uint8_t>(count)};
  const int shift = std::bit_width(count) - 1 - kSecondBits;
  return {static_cast<std::uint8_t>(shift + 1), static_cast<std::uint8_t>((count >> shift) & (kSecond - 1))};
}

bool RunHeap::fits(std::uint32_t index, std::uint32_t count, std::uint32_t alignment) const noexcept {
  const Node& node = nodes_[index];
  if (alignment == 1) return count <= node.count;
  return aligned_up(node.start, alignment) - node.start + count <= node.count;
}

// Returns a free run for the request, or kNone. Runs in the list of the request's own size may be too small, so only a
// few are tried; they often fit, since programs ask for the same sizes again and again. Every run of a higher list is
// large enough, unless it must be aligned.
std::uint32_t RunHeap::suitable(const Bins& bins, std::uint32_t count, std::uint32_t alignment) const noexcept {
  constexpr int kTries = 4;
  const Bin own = bin_of(count);
  std::uint32_t best = kNone;
  std::uint32_t index = bins.head[own.first][own.second];
  for (int tries = 0; index != kNone && tries < kTries; ++tries, index = nodes_[index].next) {
    if (!fits(index, count, alignment)) continue;
    if (nodes_[index].count == count) return index;
    if (best == kNone || nodes_[index].count < nodes_[best].count) best = index;
  }
  if (best != kNone) return best;
  std::uint32_t first = own.first;
  std::uint32_t second_map = bins.second_map[first] & (own.second == kSecond - 1 ? 0U : ~0U << (own.second + 1));
  for (;;) {
    while (second_map != 0) {
      const auto second = static_cast<std::uint32_t>(std::countr_zero(second_map));
      second_map &= second_map - 1;
      index = bins.head[first][second];
      if (alignment == 1) return index;
      for (; index != kNone; index = nodes_[index].next) {
        if (fits(index, count, alignment)) return index;
      }
    }
    const std::uint32_t first_map = bins.first_map & (first == kFirst - 1 ? 0U : ~0U << (first + 1));
    if (first_map == 0) return kNone;
    first = static_cast<std::uint32_t>(std::countr_zero(first_map));
    second_map = bins.second_map[first];
  }
}

void RunHeap::make_bins(StreamTag tag) {
  if (tag > other_bins_.size()) other_bins_.resize(tag);
  other_bins_[tag - 1] = std::make_unique<Bins>();
}

void RunHeap::link(std::uint32_t index) noexcept {
  Node& node = nodes_[index];
  Bins& bins = *find_bins(node.tag);
  const Bin bin = bin_of(node.count);
  node.first = bin.first;
  node.second = bin.second;
  std::uint32_t& head = bins.head[bin.first][bin.second];
  node.previous = kNone;
  node.next = head;
  if (head != kNone) nodes_[head].previous = index;
  head = index;
  bins.second_map[bin.first] |= 1U << bin.second;
  bins.first_map |= 1U << bin.first;
  bins.units += node.count;
  free_units_ += node.count;
}

void RunHeap::unlink(std::uint32_t index) noexcept {
  const Node& node = nodes_[index];
  Bins& bins = *find_bins(node.tag);
  if (node.previous != kNone) {
    nodes_[node.previous].next = node.next;
  } else {
    bins.head[node.first][node.second] = node.next;
    if (node.next == kNone) {
      bins.second_map[node.first] &= ~(1U << node.second);
      if (bins.second_map[node.first] == 0) bins.first_map &= ~(1U << node.first);
    }
  }
  if (node.next != kNone) nodes_[node.next].previous = node.previous;
  bins.units -= node.count;
  free_units_ -= node.count;
}

// ---------------------------------------------------------------------------------------------------------- nodes

std::uint32_t RunHeap::new_node(Run run, State state, StreamTag tag) {
  std::uint32_t index = unused_;
  if (index != kNone) {
    unused_ = nodes_[index].next;
  } else {
    index = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  Node& node = nodes_[index];
  node.start = run.start;
  node.count = run.count;
  node.tag = tag;
  node.state = state;
  return index;
}

void RunHeap::link_new(Run run, StreamTag tag) {
  const std::uint32_t index = new_node(run, State::kFree, tag);
  mark_ends(index);
  link(index);
}

void RunHeap::drop_node(std::uint32_t index) noexcept {
  nodes_[index].state = State::kUnused;
  nodes_[index].next = unused_;
  unused_ = index;
}

void RunHeap::mark_ends(std::uint32_t index) noexcept {
  const Node& node = nodes_[index];
  index_[node.start] = index;
  index_[node.start + node.count - 1] = index;
}

// Returns the free run that ends before `unit`, or kNone. Index entries may be stale, so the node is checked.
std::uint32_t RunHeap::free_node_ending_at(std::uint32_t unit, StreamTag tag) const noexcept {
  const std::uint32_t index = index_[std::ptrdiff_t{unit} - 1];
  const Node& node = nodes_[index];
  return node.state == State::kFree && node.tag == tag && node.start + node.count == unit ? index : kNone;
}

std::uint32_t RunHeap::free_node_starting_at(std::uint32_t unit, StreamTag tag) const noexcept {
  const std::uint32_t index = index_[unit];
  const Node& node = nodes_[index];
  return node.state == State::kFree && node.tag == tag && node.start == unit ? index : kNone;
}

}  // namespace ration::pool
