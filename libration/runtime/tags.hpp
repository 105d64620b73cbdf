// The tags of a program: each block is attributed to the calling thread's tag and share. Tags cost nothing until the
// first one is set. Used by runtime.cpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "ration/runtime.hpp"

namespace ration::runtime {

/// Returns true for UTF-8 of at most 256 bytes, which is safe in JSON and in texts for people.
bool is_tag(const std::string& text);
/// Sets the calling thread's tag, "" for none, and returns the former one.
std::string exchange_tag(std::string tag);

/// The share and the account that a block is charged to; share 0 means none.
struct ShareBlock {
  std::uint32_t share = 0, account = 0;
};

/// The blocks of one logical GPU by tag. Thread-safe.
class Tags {
 public:
  void took(std::uint64_t address, std::uint64_t bytes, const ShareBlock& block = {});
  /// Forgets the block and refunds its share. Call it before the block is freed, since its address may be handed out
  /// again at once.
  void gives(std::uint64_t address);
  /// Returns the use by tag, largest first.
  [[nodiscard]] std::vector<TagUsage> usage() const;

 private:
  struct Held {
    std::string tag;
    std::uint64_t bytes = 0;
    ShareBlock block;
  };
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Held> held_;  // by address; only blocks with a tag or a share
};

}  // namespace ration::runtime
