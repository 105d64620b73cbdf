#include "runtime/tags.hpp"

#include <algorithm>
#include <utility>

#include "base/utf8.hpp"
#include "runtime/shares.hpp"

namespace ration::runtime {
namespace {

thread_local std::string own_tag;

}  // namespace

bool is_tag(const std::string& text) {
  constexpr std::size_t kMaxLength = 256;
  return text.size() <= kMaxLength && is_utf8(text);
}

std::string exchange_tag(std::string tag) { return std::exchange(own_tag, std::move(tag)); }

void Tags::took(std::uint64_t address, std::uint64_t bytes, const ShareBlock& block) {
  if ((own_tag.empty() && block.share == 0) || address == 0) return;
  any_ = true;
  const std::lock_guard guard(mutex_);
  held_[address] = {own_tag, bytes, block};
}

void Tags::gives(std::uint64_t address) {
  if (!any_.load(std::memory_order_relaxed)) return;
  const std::lock_guard guard(mutex_);
  const auto found = held_.find(address);
  if (found == held_.end()) return;
  refund_share(found->second.block.share, found->second.block.account, Bytes{found->second.bytes});
  held_.erase(found);
}

std::vector<TagUsage> Tags::usage() const {
  std::map<std::string, TagUsage> sums;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [address, held] : held_) {
      if (held.tag.empty()) continue;
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
