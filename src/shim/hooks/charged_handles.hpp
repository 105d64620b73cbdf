// Driver objects that go by a handle, each charged for so many bytes until it is destroyed or its context ends: arrays,
// loaded code. Thread-safe.
#pragma once

#include "shim/hooks/governor.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {

class ChargedHandles {
 public:
  /// The driver gave `handle` anew, in the context of `place`, which was charged.
  void enter(std::uint64_t handle, const Place& place, Bytes size) noexcept {
    Entry entry, stale;  // stale: of a context that another thread is destroying
    entry.bytes = size.count();
    entry.context = place.context;
    entry.account = place.account;
    if (entries_.replace(handle, entry, stale)) give_back(stale.account, Bytes{stale.bytes});
  }

  /// `call` destroys it. Its entry is taken out first: once it is gone another may be made under its handle.
  /// `gone(size)` is told what it was charged, 0 also of one that is not known.
  template <typename Call, typename Gone>
  cuda::CUresult release(std::uint64_t handle, Call&& call, Gone&& gone) noexcept {
    Entry entry;
    const bool known = entries_.take(handle, entry);
    const cuda::CUresult result = call();
    if (result == cuda::CUDA_SUCCESS) {
      gone(Bytes{entry.bytes});
      if (known) give_back(entry.account, Bytes{entry.bytes});
    } else if (known) {
      entries_.insert(handle, entry);
    }
    return result;
  }

  /// All that lived in the context of that number. `gone(handle, size)` is told of each.
  template <typename Gone>
  void context_is_gone(std::uint64_t context, Gone&& gone) noexcept {
    entries_.remove_if([&](std::uint64_t handle, const Entry& entry) {
      if (entry.context != context) return false;
      gone(handle, Bytes{entry.bytes});
      give_back(entry.account, Bytes{entry.bytes});
      return true;
    });
  }

  /// In the child of a fork: forgets, without refunding.
  void abandon() noexcept { entries_.abandon(); }

 private:
  struct Entry {
    std::uint64_t bytes = 0;
    std::uint64_t context = 0;
    std::uint32_t account = kNoAccount;
  };
  Table<Entry> entries_;
};

}  // namespace ration::shim
