// The callbacks of a program for when device memory is short. Used by runtime.cpp and runtime_memory.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace ration::runtime {

/// Thread-safe. A callback may call every function here.
class Pressure {
 public:
  using Callback = std::function<void(std::uint64_t wanted)>;

  /// Adds a callback and returns a number for remove(), never 0.
  std::uint64_t add(Callback callback);
  /// Returns when no thread is inside it any more, except from inside a callback. An unknown number is ignored.
  void remove(std::uint64_t number);
  /// Calls each, in the order in which they were added. Returns false if there was none, or this thread is inside one.
  bool tell(std::uint64_t wanted);

 private:
  std::mutex mutex_;
  std::shared_mutex running_;  // held shared inside a callback
  std::map<std::uint64_t, Callback> callbacks_;
  std::uint64_t last_ = 0;
};

}  // namespace ration::runtime
