// The streams that use a block besides the stream on which it will be freed. PyTorch's record_stream() adds such
// streams. When a block is freed, the runtime makes the stream of that call wait for them.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace ration::runtime {

/// The streams recorded for each block. Thread-safe. Promise: while no stream is recorded, take() costs one load.
class RecordedStreams {
 public:
  void add(const void* address, void* stream);
  /// Returns the streams that were added for the block, and forgets them.
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
