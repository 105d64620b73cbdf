// Which part of a program asked for what: blocks are attributed to the calling thread's tag and share. Costs nothing
// until a tag is set for the first time. Used by runtime.cpp.
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

/// UTF-8 of at most 256 bytes: it stands in JSON and in texts for people.
bool is_tag(const std::string& text);
/// The calling thread's tag, "" for none. Returns the former one.
std::string exchange_tag(std::string tag);

/// The share that a block is charged to; 0: none.
struct ShareBlock {
  std::uint32_t share = 0, account = 0;
};

/// The blocks of one logical GPU by tag. Thread-safe.
class Tags {
 public:
  void took(std::uint64_t address, std::uint64_t bytes, const ShareBlock& block = {});
  /// Before the block is given back: its address may be handed out again at once. Its share is refunded.
  void gives(std::uint64_t address);
  /// Largest first.
  [[nodiscard]] std::vector<TagUsage> usage() const;

 private:
  struct Held {
    std::string tag;
    std::uint64_t bytes = 0;
    ShareBlock block;
  };
  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Held> held_;  // by address; blocks without a tag and a share are not in it
};

}  // namespace ration::runtime
