#include "trace/whatif/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace ration::trace {
namespace {

struct Live {
  std::uint32_t block = 0;
  std::uint64_t bytes = 0;
};

/// A collector of steps. It gives each live block a number, and each stream a number from 0.
class Collector {
 public:
  Collector(std::size_t device, bool booked) : device_(device), booked_(booked) {}

  bool take(const Event& event) {
    const std::uint64_t number = number_++;
    if (event.device != device_ || event.account == Account::kPinnedHost) return true;
    // A pool of the driver serves the tensors of a deep recording and is charged as it grows. A block with a charge of
    // its own was taken by a library, not by the framework's allocator.
    const bool charged = booked_ && event.charged != 0;
    if (event.kind == Kind::kProcessEnded) {
      end(event, number);
    } else if (charged) {
      if (event.kind != Kind::kPoolGrew && event.kind != Kind::kPoolTrimmed) beside(event, number);
    } else if (event.kind == Kind::kAllocate && event.bytes > 0 && event.address != 0) {
      allocate(event, number);
    } else if (event.kind == Kind::kFree) {
      free(event, number);
    }
    return result.steps.size() <= kMostSteps;
  }

  Steps result;

 private:
  using Blocks = std::unordered_map<std::uint64_t, Live>;

  void add(const Event& event, std::uint64_t number, StepKind kind, std::uint64_t bytes, std::uint32_t block = 0,
           std::uint8_t stream = 0) {
    const auto process = static_cast<std::uint16_t>(std::min<std::uint32_t>(event.process, 0xffff));
    result.processes = std::max<std::uint16_t>(result.processes, process + 1);
    result.steps.push_back({bytes, block, process, stream, kind});
    result.times.push_back(event.time);
    result.events.push_back(number);
  }

  std::uint8_t stream_of(std::uint64_t stream) {
    const auto found = std::find(streams_.begin(), streams_.end(), stream);
    if (found != streams_.end()) return static_cast<std::uint8_t>(found - streams_.begin());
    if (streams_.size() < 0xff) streams_.push_back(stream);
    return static_cast<std::uint8_t>(streams_.size() - 1);
  }

  void allocate(const Event& event, std::uint64_t number) {
    Blocks& blocks = blocks_[event.process];
    if (blocks.contains(event.address)) release(event, number, blocks.find(event.address), blocks);
    std::uint32_t block = result.blocks;
    if (unused_.empty()) {
      ++result.blocks;
    } else {
      block = unused_.back();
      unused_.pop_back();
    }
    blocks[event.address] = {block, event.bytes};
    add(event, number, StepKind::kAllocate, event.bytes, block, stream_of(event.stream));
    ++result.allocations;
    hold(static_cast<std::int64_t>(event.bytes));
  }

  void free(const Event& event, std::uint64_t number) {
    Blocks& blocks = blocks_[event.process];
    if (const auto found = blocks.find(event.address); found != blocks.end()) release(event, number, found, blocks);
  }

  void release(const Event& event, std::uint64_t number, Blocks::iterator found, Blocks& blocks) {
    add(event, number, StepKind::kFree, found->second.bytes, found->second.block);
    unused_.push_back(found->second.block);
    hold(-static_cast<std::int64_t>(found->second.bytes));
    blocks.erase(found);
  }

  void beside(const Event& event, std::uint64_t number) {
    std::int64_t& held = beside_[event.process];
    held += event.charged;
    hold(event.charged);
    add(event, number, event.charged > 0 ? StepKind::kTaken : StepKind::kGiven,
        static_cast<std::uint64_t>(std::abs(event.charged)));
  }

  void end(const Event& event, std::uint64_t number) {
    Blocks& blocks = blocks_[event.process];
    while (!blocks.empty()) release(event, number, blocks.begin(), blocks);
    std::int64_t& held = beside_[event.process];
    if (held > 0) add(event, number, StepKind::kGiven, static_cast<std::uint64_t>(held));
    hold(-held);
    held = 0;
    add(event, number, StepKind::kEnded, 0);
  }

  void hold(std::int64_t change) {
    live_ += change;
    result.peak_live =
        Bytes{std::max(result.peak_live.count(), static_cast<std::uint64_t>(std::max<std::int64_t>(live_, 0)))};
  }

  const std::size_t device_;
  const bool booked_;
  std::uint64_t number_ = 0;
  std::int64_t live_ = 0;
  std::vector<std::uint64_t> streams_;
  std::vector<std::uint32_t> unused_;
  std::unordered_map<std::uint32_t, Blocks> blocks_;
  std::unordered_map<std::uint32_t, std::int64_t> beside_;
};

}  // namespace

Result<Steps> steps_of(const Recording& recording, std::size_t device) {
  Collector collector(device, recording.header().booked);
  recording.read([&](const Event& event) { return collector.take(event); });
  if (collector.result.steps.size() > kMostSteps)
    return fail("E1813", fmt::format("more than {} events on GPU {}: models accept no more.", kMostSteps, device),
                "ration whatif FILE --allocator none", 2);
  return std::move(collector.result);
}

}  // namespace ration::trace
