// Driver objects with a handle, each charged a number of bytes until it is destroyed or its context ends: arrays,
// loaded code. Thread-safe.
#pragma once

#include "guard/hooks/governor.hpp"
#include "guard/hooks/table.hpp"
#include "guard/recorder/recorder.hpp"

namespace ration::guard {

class ChargedHandles {
 public:
  /// Enters the object that the driver just created as `handle` in the context of `place`. Its bytes must be charged
  /// already.
  void enter(std::uint64_t handle, const Place& place, Bytes size) noexcept {
    Entry entry, stale;  // stale: the old object of this handle, in a context that another thread is destroying
    entry.bytes = size.count();
    entry.context = place.context;
    entry.account = place.account;
    if (entries_.replace(handle, entry, stale)) give_back(stale.account, Bytes{stale.bytes});
  }

  /// Destroys the object by `call`. Removes the object's entry first, because another object may get the same handle at
  /// once. Calls `gone(size)` with the object's charged bytes, or 0 for an unknown handle.
  template <typename Call, typename Gone>
  cuda::CUresult release(std::uint64_t handle, Call&& call, Gone&& gone) noexcept {
    Entry entry;
    const bool known = entries_.take(handle, entry);
    Recorded event(trace::Kind::kFree, entry.bytes);
    const cuda::CUresult result = call();
    if (result == cuda::CUDA_SUCCESS) {
      if (known) event.done(handle, entry.account);
      gone(Bytes{entry.bytes});
      if (known) give_back(entry.account, Bytes{entry.bytes});
    } else if (known) {
      entries_.insert(handle, entry);
    }
    return result;
  }

  /// Forgets every object of the context with that number and calls `gone(handle, size)` for each.
  template <typename Gone>
  void context_is_gone(std::uint64_t context, Gone&& gone) noexcept {
    entries_.remove_if([&](std::uint64_t handle, const Entry& entry) {
      if (entry.context != context) return false;
      gone(handle, Bytes{entry.bytes});
      Recorded event(trace::Kind::kFree, entry.bytes);
      event.done(handle, entry.account);
      give_back(entry.account, Bytes{entry.bytes});
      return true;
    });
  }

  /// Forgets everything without a refund, in the child of a fork.
  void abandon() noexcept { entries_.abandon(); }

 private:
  struct Entry {
    std::uint64_t bytes = 0;
    std::uint64_t context = 0;
    std::uint32_t account = kNoAccount;
  };
  Table<Entry> entries_;
};

}  // namespace ration::guard
