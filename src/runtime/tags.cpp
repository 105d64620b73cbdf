#include "runtime/tags.hpp"

#include <algorithm>
#include <utility>

namespace ration::runtime {
namespace {

thread_local std::string own_tag;

}  // namespace

std::string exchange_tag(std::string tag) { return std::exchange(own_tag, std::move(tag)); }

void Tags::took(std::uint64_t address, std::uint64_t bytes) {
  if (own_tag.empty() || address == 0) return;
  any_ = true;
  const std::lock_guard guard(mutex_);
  held_[address] = {own_tag, bytes};
}

void Tags::gives(std::uint64_t address) {
  if (!any_.load(std::memory_order_relaxed)) return;
  const std::lock_guard guard(mutex_);
  held_.erase(address);
}

std::vector<TagUsage> Tags::usage() const {
  std::map<std::string, TagUsage> sums;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [address, held] : held_) {
      TagUsage& sum = sums[held.tag];
      sum.tag = held.tag;
      sum.bytes += held.bytes;
      ++sum.blocks;
    }
  }
  std::vector<TagUsage> result;
  for (auto& [name, usage] : sums) result.push_back(std::move(usage));
  std::stable_sort(result.begin(), result.end(),
                   [](const TagUsage& left, const TagUsage& right) { return left.bytes > right.bytes; });
  return result;
}

}  // namespace ration::runtime
