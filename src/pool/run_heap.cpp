#include "pool/run_heap.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>

namespace ration::pool {
namespace {

std::uint32_t aligned_up(std::uint32_t unit, std::uint32_t alignment) noexcept {
  return (unit + alignment - 1) / alignment * alignment;
}

}  // namespace

RunHeap::RunHeap(std::uint32_t units) : units_(units), nodes_(1) {
  // Touched only where runs begin and end, so most of it never takes host memory.
  void* memory = ::mmap(nullptr, (std::size_t{units} + 1) * sizeof(std::uint32_t), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  index_ = static_cast<std::uint32_t*>(memory);
}

RunHeap::~RunHeap() { ::munmap(index_, (std::size_t{units_} + 1) * sizeof(std::uint32_t)); }

// ----------------------------------------------------------------------------------------------- taking, releasing

bool RunHeap::take(std::uint32_t count, std::uint32_t alignment, StreamTag tag, Run& out) {
  if (tag >= bins_.size() || bins_[tag] == nullptr || bins_[tag]->units < count) return false;
  const std::uint32_t index = suitable(*bins_[tag], count, alignment);
  if (index == kNone) return false;
  unlink(index);
  const Run whole{nodes_[index].start, nodes_[index].count};
  const std::uint32_t start = aligned_up(whole.start, alignment);
  out = {start, count};
  nodes_[index].start = start;
  nodes_[index].count = count;
  nodes_[index].state = State::kHeld;
  mark_ends(index);
  if (const std::uint32_t before = start - whole.start; before > 0) {
    link(new_node({whole.start, before}, State::kFree, tag));
  }
  if (const std::uint32_t after = whole.start + whole.count - (start + count); after > 0) {
    link(new_node({start + count, after}, State::kFree, tag));
  }
  return true;
}

Run RunHeap::held(std::uint32_t unit) const noexcept {
  if (unit >= units_) return {};
  const std::uint32_t index = index_[unit];
  if (index >= nodes_.size() || nodes_[index].state != State::kHeld || nodes_[index].start != unit) return {};
  return {unit, nodes_[index].count};
}

void RunHeap::release(std::uint32_t unit, StreamTag tag) {
  (void)bins_of(tag);
  std::uint32_t index = index_[unit];
  nodes_[index].state = State::kFree;
  nodes_[index].tag = tag;
  join_neighbours(index);
  link(index);
}

void RunHeap::add(Run run, StreamTag tag) {
  (void)bins_of(tag);
  std::uint32_t index = new_node(run, State::kFree, tag);
  join_neighbours(index);
  link(index);
}

void RunHeap::remove(std::uint32_t start, Run part) {
  const std::uint32_t index = index_[start];
  unlink(index);
  const Node whole = nodes_[index];
  drop_node(index);
  index_[part.start] = index_[part.start + part.count - 1] = kNone;
  if (const std::uint32_t before = part.start - whole.start; before > 0) {
    link(new_node({whole.start, before}, State::kFree, whole.tag));
  }
  const std::uint32_t end = part.start + part.count;
  if (const std::uint32_t after = whole.start + whole.count - end; after > 0) {
    link(new_node({end, after}, State::kFree, whole.tag));
  }
}

void RunHeap::retag(StreamTag from, StreamTag to) {
  if (from == to || from >= bins_.size() || bins_[from] == nullptr) return;
  std::vector<std::uint32_t> moving;
  for (std::uint32_t index = 1; index < nodes_.size(); ++index) {
    if (nodes_[index].state == State::kFree && nodes_[index].tag == from) moving.push_back(index);
  }
  (void)bins_of(to);
  for (std::uint32_t index : moving) {
    // It may have been joined to one of those before it.
    if (nodes_[index].state != State::kFree || nodes_[index].tag != from) continue;
    unlink(index);
    nodes_[index].tag = to;
    join_neighbours(index);
    link(index);
  }
}

// ------------------------------------------------------------------------------------------------------ looking on

std::uint32_t RunHeap::free_units(StreamTag tag) const noexcept {
  return tag < bins_.size() && bins_[tag] != nullptr ? bins_[tag]->units : 0;
}

std::uint32_t RunHeap::largest_free() const noexcept {
  std::uint32_t largest = 0;
  for (const auto& bins : bins_) {
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
  const int top = std::bit_width(count) - 1;
  if (top < kSecondBits) return {0, static_cast<int>(count)};
  return {top - kSecondBits + 1, static_cast<int>((count >> (top - kSecondBits)) & (kSecond - 1))};
}

bool RunHeap::fits(std::uint32_t index, std::uint32_t count, std::uint32_t alignment) const noexcept {
  const Node& node = nodes_[index];
  return aligned_up(node.start, alignment) - node.start + count <= node.count;
}

// Runs of the request's own list may be smaller or larger than it; a few are tried, since programs ask for the same
// sizes again and again. Every run of a higher list is large enough, but for alignment.
std::uint32_t RunHeap::suitable(Bins& bins, std::uint32_t count, std::uint32_t alignment) const noexcept {
  constexpr int kTries = 8;
  const Bin own = bin_of(count);
  std::uint32_t best = kNone;
  std::uint32_t index = bins.head[static_cast<std::size_t>(own.first)][static_cast<std::size_t>(own.second)];
  for (int tries = 0; index != kNone && tries < kTries; ++tries, index = nodes_[index].next) {
    if (!fits(index, count, alignment)) continue;
    if (best == kNone || nodes_[index].count < nodes_[best].count) best = index;
    if (nodes_[best].count == count) return best;
  }
  if (best != kNone) return best;
  Bin bin = own;
  std::uint32_t second = bins.second_map[static_cast<std::size_t>(bin.first)];
  second &= bin.second == kSecond - 1 ? 0U : ~0U << (bin.second + 1);
  for (;;) {
    while (second != 0) {
      bin.second = std::countr_zero(second);
      second &= second - 1;
      index = bins.head[static_cast<std::size_t>(bin.first)][static_cast<std::size_t>(bin.second)];
      for (; index != kNone; index = nodes_[index].next) {
        if (fits(index, count, alignment)) return index;
        if (alignment == 1) break;
      }
    }
    const std::uint32_t first = bins.first_map & (bin.first == kFirst - 1 ? 0U : ~0U << (bin.first + 1));
    if (first == 0) return kNone;
    bin.first = std::countr_zero(first);
    second = bins.second_map[static_cast<std::size_t>(bin.first)];
  }
}

RunHeap::Bins& RunHeap::bins_of(StreamTag tag) {
  if (tag >= bins_.size()) bins_.resize(std::size_t{tag} + 1);
  if (bins_[tag] == nullptr) bins_[tag] = std::make_unique<Bins>();
  return *bins_[tag];
}

void RunHeap::link(std::uint32_t index) noexcept {
  Node& node = nodes_[index];
  Bins& bins = *bins_[node.tag];
  const Bin bin = bin_of(node.count);
  const auto first = static_cast<std::size_t>(bin.first), second = static_cast<std::size_t>(bin.second);
  std::uint32_t& head = bins.head[first][second];
  node.previous = kNone;
  node.next = head;
  if (head != kNone) nodes_[head].previous = index;
  head = index;
  bins.second_map[first] |= 1U << bin.second;
  bins.first_map |= 1U << bin.first;
  bins.units += node.count;
  free_units_ += node.count;
}

void RunHeap::unlink(std::uint32_t index) noexcept {
  const Node& node = nodes_[index];
  Bins& bins = *bins_[node.tag];
  const Bin bin = bin_of(node.count);
  const auto first = static_cast<std::size_t>(bin.first), second = static_cast<std::size_t>(bin.second);
  if (node.previous != kNone) {
    nodes_[node.previous].next = node.next;
  } else {
    bins.head[first][second] = node.next;
    if (node.next == kNone) {
      bins.second_map[first] &= ~(1U << bin.second);
      if (bins.second_map[first] == 0) bins.first_map &= ~(1U << bin.first);
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
  mark_ends(index);
  return index;
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

std::uint32_t RunHeap::free_node_ending_at(std::uint32_t unit, StreamTag tag) const noexcept {
  if (unit == 0) return kNone;
  const std::uint32_t index = index_[unit - 1];
  if (index == kNone || index >= nodes_.size()) return kNone;
  const Node& node = nodes_[index];
  return node.state == State::kFree && node.tag == tag && node.start + node.count == unit ? index : kNone;
}

std::uint32_t RunHeap::free_node_starting_at(std::uint32_t unit, StreamTag tag) const noexcept {
  if (unit >= units_) return kNone;
  const std::uint32_t index = index_[unit];
  if (index == kNone || index >= nodes_.size()) return kNone;
  const Node& node = nodes_[index];
  return node.state == State::kFree && node.tag == tag && node.start == unit ? index : kNone;
}

/// `index` is free and in no list. Its free neighbours of the same tag become part of it.
void RunHeap::join_neighbours(std::uint32_t& index) noexcept {
  const StreamTag tag = nodes_[index].tag;
  const std::uint32_t before = free_node_ending_at(nodes_[index].start, tag);
  if (before != kNone) {
    unlink(before);
    nodes_[index].start = nodes_[before].start;
    nodes_[index].count += nodes_[before].count;
    drop_node(before);
  }
  const std::uint32_t after = free_node_starting_at(nodes_[index].start + nodes_[index].count, tag);
  if (after != kNone) {
    unlink(after);
    nodes_[index].count += nodes_[after].count;
    drop_node(after);
  }
  mark_ends(index);
}

}  // namespace ration::pool
