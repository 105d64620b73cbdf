#include "runtime/recorded_streams.hpp"

#include <algorithm>

namespace ration::runtime {

void RecordedStreams::add(const void* address, void* stream) {
  const std::lock_guard guard(mutex_);
  std::vector<void*>& streams = streams_[address];
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
  any_ = true;
}

std::vector<void*> RecordedStreams::look_up(const void* address) {
  const std::lock_guard guard(mutex_);
  const auto found = streams_.find(address);
  if (found == streams_.end()) return {};
  std::vector<void*> streams = std::move(found->second);
  streams_.erase(found);
  any_ = !streams_.empty();
  return streams;
}

}  // namespace ration::runtime
