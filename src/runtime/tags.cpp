#include "runtime/tags.hpp"

#include <algorithm>
#include <utility>

#include "runtime/shares.hpp"

namespace ration::runtime {
namespace {

thread_local std::string own_tag;

}  // namespace

bool is_tag(const std::string& text) {
  constexpr std::size_t kMaxLength = 256;
  if (text.size() > kMaxLength) return false;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t length = first < 0x80   ? 1
                               : first < 0xc2 ? 0
                               : first < 0xe0 ? 2
                               : first < 0xf0 ? 3
                               : first < 0xf5 ? 4
                                              : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    i += length;
  }
  return true;
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
