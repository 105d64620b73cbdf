#include "sim/workload/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "base/strings.hpp"
#include "base/units.hpp"
#include "sim/workload/driver_calls.hpp"

namespace ration::workload {
namespace {

using namespace cuda;
using Clock = std::chrono::steady_clock;

constexpr auto kBeat = std::chrono::milliseconds(50);  // the pause after which a working program changes what it holds
constexpr auto kAskedAgain = std::chrono::seconds(1);  // the pause before a program asks again after a denial
constexpr std::uint64_t kShareThatMoves = 16;  // a working program releases at most 1/16 of its memory, or one block

class Player {
 public:
  Player(Allocator& allocator, const StepOptions& options)
      : allocator_(allocator), options_(options), random_(options.seed) {}

  [[nodiscard]] bool play(const Step& step) {
    std::size_t available = 0, total = 0;
    DRIVER(cuMemGetInfo_v2)(&available, &total);
    const std::uint64_t size = parse_size(step.size, Bytes{total}, Bytes{available}).value_or(Bytes{0}).count();
    bool complete = step.more ? take(size) : hold(size);
    if (!complete && !refused(step.more ? size : block())) return false;
    // The step's time counts from now: the wait for memory is no part of it.
    auto asked = Clock::now();
    const auto end = asked + scaled(std::chrono::nanoseconds(step.nanoseconds));
    if (step.idle || step.more) std::this_thread::sleep_until(end);
    while (Clock::now() < end) {
      std::this_thread::sleep_for(std::min<Clock::duration>(kBeat, end - Clock::now()));
      if (!complete && Clock::now() - asked < scaled(kAskedAgain)) continue;
      asked = Clock::now();
      const bool was_complete = complete;
      complete = hold(complete ? size - moving(size) : size);
      if (!complete && was_complete && !refused(block())) return false;
    }
    return true;
  }

 private:
  template <typename Duration>
  [[nodiscard]] Clock::duration scaled(Duration time) const {
    return std::chrono::duration_cast<Clock::duration>(time / options_.speed);
  }
  [[nodiscard]] std::uint64_t block() const { return options_.block.count(); }
  /// Returns how many bytes a working program has released at this moment: some blocks, and at most half of `size`.
  [[nodiscard]] std::uint64_t moving(std::uint64_t size) {
    const std::uint64_t most = std::max<std::uint64_t>(size / kShareThatMoves / block(), 1);
    return std::min(random_() % (most + 1) * block(), size / 2);
  }

  bool take(std::uint64_t size) {
    const auto address = allocator_.allocate(size);
    if (!address) return false;
    blocks_.push_back({*address, size});
    held_ += size;
    return true;
  }

  void give(std::size_t index) {
    allocator_.free(blocks_[index].address);
    held_ -= blocks_[index].size;
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  [[nodiscard]] bool hold(std::uint64_t target) {
    for (std::size_t index = blocks_.size(); index-- > 0 && held_ > target;)
      if (index % 2 == 1 && held_ - blocks_[index].size >= target) give(index);
    while (held_ > target && !blocks_.empty()) give(blocks_.size() - 1);
    while (held_ < target)
      if (!take(std::min(block(), target - held_))) return false;
    return true;
  }

  [[nodiscard]] bool refused(std::uint64_t size) {
    std::size_t available = 0, total = 0;
    DRIVER(cuMemGetInfo_v2)(&available, &total);
    const std::uint64_t kept = allocator_.held();
    fmt::print(stderr, "ration-workload: denied {}: {} held{}, {} free of {}\n", format_size(Bytes{size}),
               format_size(Bytes{kept}),
               kept > held_ ? fmt::format(" ({} of it free, in pieces)", format_size(Bytes{kept - held_})) : "",
               format_size(Bytes{available}), format_size(Bytes{total}));
    return options_.go_on;
  }

  struct Block {
    CUdeviceptr address;
    std::uint64_t size;
  };
  Allocator& allocator_;
  const StepOptions& options_;
  std::mt19937_64 random_;
  std::vector<Block> blocks_;
  std::uint64_t held_ = 0;
};

Error not_a_step(const std::string& word) {
  return {"E1442", fmt::format("'{}' is not a step.", word), "2GiB:10s, 2GiB:30s:idle, or one block more: +1GiB:5s", 2};
}

}  // namespace

Result<std::vector<Step>> read_steps(const std::vector<std::string>& words) {
  std::vector<Step> steps;
  for (const std::string& word : words) {
    Step step;
    const auto parts = split(word, ':');
    step.idle = parts.size() == 3 && parts[2] == "idle";
    const auto time = parts.size() == 2 || step.idle ? parse_duration(parts[1]) : tl::unexpected(not_a_step(word));
    if (!time) return tl::unexpected(not_a_step(word));
    step.more = word.front() == '+';
    step.size = parts[0].substr(step.more ? 1 : 0);
    const Bytes some{std::uint64_t{1} << 40};
    if (const auto size = parse_size(step.size, some, some); !size && step.size != "0")
      return tl::unexpected(not_a_step(word));
    if (step.size == "0") step.size = "0%";
    step.nanoseconds = *time;
    steps.push_back(std::move(step));
  }
  return steps;
}

bool play_steps(Allocator& allocator, const std::vector<Step>& steps, const StepOptions& options) {
  Player player(allocator, options);
  do {
    for (const Step& step : steps)
      if (!player.play(step)) return false;
  } while (options.repeat && !steps.empty());
  return true;
}

}  // namespace ration::workload
