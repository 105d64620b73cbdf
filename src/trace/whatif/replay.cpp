#include "trace/whatif/replay.hpp"

#include <algorithm>
#include <vector>

namespace ration::trace {

Replayed replay(const Steps& steps, const MakeAllocator& make, Bytes limit) {
  AccountedDevice device(limit);
  std::vector<std::unique_ptr<TriedAllocator>> allocators(steps.processes);
  Replayed result;
  const auto perform = [&](const Step& step) {
    std::unique_ptr<TriedAllocator>& allocator = allocators[step.process];
    switch (step.kind) {
      case StepKind::kAllocate:
        if (!allocator) allocator = make(device, steps.blocks);
        return allocator != nullptr && allocator->allocate(step.block, step.bytes, step.stream);
      case StepKind::kFree:
        if (allocator) allocator->free(step.block);
        return true;
      case StepKind::kTaken:
        return device.take(step.bytes);
      case StepKind::kGiven:
        device.give(std::min(step.bytes, device.taken()));
        return true;
      case StepKind::kEnded:
        allocator.reset();
        return true;
    }
    return true;
  };
  for (std::size_t index = 0; index < steps.steps.size(); ++index) {
    if (perform(steps.steps[index])) continue;
    result.denied = index;
    break;
  }
  result.peak = Bytes{device.peak()};
  result.held = Bytes{device.taken()};
  return result;
}

std::optional<Bytes> smallest_limit(const Steps& steps, const MakeAllocator& make) {
  const auto granules = [](Bytes bytes) { return round_up(bytes, kGranule).count() / kGranule.count(); };
  const auto fits = [&](std::uint64_t count) { return !replay(steps, make, kGranule * count).denied; };
  const Replayed free = replay(steps, make, kUnlimited);
  if (free.denied) return std::nullopt;
  // A limit equal to the peak without a limit is enough, unless the allocator leaves a part of its limit unused, as BFC
  // does.
  std::uint64_t enough = granules(free.peak), denied = granules(steps.peak_live);
  denied = denied == 0 ? 0 : denied - 1;
  if (enough == 0) return Bytes{0};
  while (!fits(enough)) {
    denied = enough;
    enough *= 2;
    if (enough > granules(kUnlimited) / 2) return std::nullopt;
  }
  while (denied + 1 < enough) {
    const std::uint64_t middle = denied + (enough - denied) / 2;
    (fits(middle) ? enough : denied) = middle;
  }
  return kGranule * enough;
}

}  // namespace ration::trace
