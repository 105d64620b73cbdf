// The program's callbacks for moments when device memory is short. Used by runtime.cpp and runtime_memory.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace ration::runtime {

/// The list of callbacks. A callback may call every function here. Thread-safe.
class Pressure {
 public:
  using Callback = std::function<void(std::uint64_t wanted)>;

  /// Adds a callback and returns a number for remove(), never 0.
  std::uint64_t add(Callback callback);
  /// Removes a callback. Returns once no thread runs it any more, unless called from inside a callback. Ignores an
  /// unknown number.
  void remove(std::uint64_t number);
  /// Calls all callbacks in the order in which they were added. Returns false if there are none or this thread is
  /// inside one.
  bool tell(std::uint64_t wanted);

 private:
  std::mutex mutex_;
  std::shared_mutex running_;  // held as shared by each thread that runs callbacks
  std::map<std::uint64_t, Callback> callbacks_;
  std::uint64_t last_ = 0;
};

}  // namespace ration::runtime
