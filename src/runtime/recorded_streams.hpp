// Blocks that other streams than their own use: what PyTorch calls record_stream. Used by the runtime, which has a
// block's stream wait for them when the block is given back.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace ration::runtime {

/// Thread-safe. Promise: while nobody records a stream, take() costs one load.
class RecordedStreams {
 public:
  void add(const void* address, void* stream);
  /// The streams that were added for the block, which is forgotten.
  [[nodiscard]] std::vector<void*> take(const void* address) {
    return any_.load(std::memory_order_relaxed) ? look_up(address) : std::vector<void*>{};
  }

 private:
  [[nodiscard]] std::vector<void*> look_up(const void* address);

  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::unordered_map<const void*, std::vector<void*>> streams_;
};

}  // namespace ration::runtime
