// A hash table from a 64-bit key (a pointer, a handle) to a small value, for state that lives inside other people's
// processes. Used by the shim's hooks. Promises: insert, find and erase in O(1) whatever the number of entries; memory
// from mmap only (the program's malloc may be replaced, or may itself call the driver); thread-safe; never freed, since
// the driver is called from atexit handlers after every destructor.
#pragma once

#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace ration::shim {

/// Held for a few instructions. Yields when the holder seems to have lost its processor.
class SpinLock {
 public:
  void lock() noexcept {
    for (int tries = 0; flag_.exchange(true, std::memory_order_acquire); ++tries) {
      if (tries % 128 == 127) ::sched_yield();
    }
  }
  /// Until whichever thread holds it has let go.
  void wait() noexcept {
    lock();
    unlock();
  }
  void unlock() noexcept { flag_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> flag_{false};
};

class SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) noexcept : lock_(lock) { lock_.lock(); }
  ~SpinGuard() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

template <typename Value>
class Table {
  static_assert(std::is_trivially_copyable_v<Value>);

 public:
  /// False: no memory for a larger table; the entry was not made.
  bool insert(std::uint64_t key, const Value& value) noexcept {
    Shard& shard = shard_of(key);
    const SpinGuard guard(shard.lock);
    return shard.insert(key, value);
  }

  /// As insert(). True: `key` was there already, with the value `before`.
  bool replace(std::uint64_t key, const Value& value, Value& before) noexcept {
    Shard& shard = shard_of(key);
    const SpinGuard guard(shard.lock);
    const Entry* present = shard.locate(key);
    if (present != nullptr) before = present->value;
    shard.insert(key, value);
    return present != nullptr;
  }

  bool find(std::uint64_t key, Value& out) noexcept {
    Shard& shard = shard_of(key);
    const SpinGuard guard(shard.lock);
    const Entry* entry = shard.locate(key);
    if (entry == nullptr) return false;
    out = entry->value;
    return true;
  }

  bool take(std::uint64_t key, Value& out) noexcept {
    Shard& shard = shard_of(key);
    const SpinGuard guard(shard.lock);
    Entry* entry = shard.locate(key);
    if (entry == nullptr) return false;
    out = entry->value;
    shard.erase(entry);
    return true;
  }

  /// Changes the value of `key` (made empty if `key` is new) under the table's lock. `change(Value&)` returns whether
  /// the entry stays. False: no memory for a new entry.
  template <typename Change>
  bool update(std::uint64_t key, Change&& change) noexcept {
    Shard& shard = shard_of(key);
    const SpinGuard guard(shard.lock);
    Entry* entry = shard.locate(key);
    if (entry == nullptr) {
      entry = shard.add(key, Value{});
      if (entry == nullptr) return false;
    }
    if (!change(entry->value)) shard.erase(entry);
    return true;
  }

  /// Takes out every entry for which `leaves(key, value)` holds; called under the lock of the entry's shard, once or,
  /// where an entry has to move meanwhile, twice for those that stay. Cold: walks the whole table.
  template <typename Leaves>
  void remove_if(Leaves&& leaves) noexcept {
    for (Shard& shard : shards_) {
      const SpinGuard guard(shard.lock);
      for (std::size_t i = 0; i < shard.capacity;) {
        Entry& entry = shard.entries[i];
        if (entry.key != 0 && leaves(entry.key, entry.value)) {
          shard.erase(&entry);  // another entry may have moved to place i: look at it again
        } else {
          ++i;
        }
      }
    }
  }

  /// `visit(key, value)` for every entry, under the lock of its shard.
  template <typename Visit>
  void each(Visit&& visit) noexcept {
    for (Shard& shard : shards_) {
      const SpinGuard guard(shard.lock);
      for (std::size_t i = 0; i < shard.capacity; ++i) {
        if (shard.entries[i].key != 0) visit(shard.entries[i].key, shard.entries[i].value);
      }
    }
  }

  /// In a child after fork, where a lock may have been held by a thread that no longer exists.
  void abandon() noexcept {
    for (Shard& shard : shards_) {
      shard.lock.unlock();
      if (shard.entries != nullptr) std::memset(static_cast<void*>(shard.entries), 0, shard.capacity * sizeof(Entry));
      shard.size = 0;
    }
  }

 private:
  static constexpr std::size_t kShards = 16;
  static constexpr std::size_t kFirstCapacity = 256;

  struct Entry {
    std::uint64_t key;  // 0 = empty
    Value value;
  };

  // Fibonacci hashing: pointers differ mostly in their middle bits.
  static std::uint64_t hash(std::uint64_t key) noexcept { return (key >> 8 ^ key) * 0x9e3779b97f4a7c15U; }

  struct alignas(64) Shard {
    SpinLock lock;
    Entry* entries = nullptr;
    std::size_t capacity = 0;  // a power of two
    std::size_t size = 0;

    std::size_t home(std::uint64_t key) const noexcept { return (hash(key) >> 32) & (capacity - 1); }

    Entry* locate(std::uint64_t key) noexcept {
      if (capacity == 0) return nullptr;
      for (std::size_t i = home(key); entries[i].key != 0; i = (i + 1) & (capacity - 1)) {
        if (entries[i].key == key) return &entries[i];
      }
      return nullptr;
    }

    bool grow() noexcept {
      const std::size_t wider = capacity == 0 ? kFirstCapacity : capacity * 2;
      void* memory = ::mmap(nullptr, wider * sizeof(Entry), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) return false;
      Entry* old = entries;
      const std::size_t old_capacity = capacity;
      entries = static_cast<Entry*>(memory);
      capacity = wider;
      for (std::size_t i = 0; i < old_capacity; ++i) {
        if (old[i].key != 0) place(old[i].key, old[i].value);
      }
      if (old != nullptr) ::munmap(old, old_capacity * sizeof(Entry));
      return true;
    }

    Entry* place(std::uint64_t key, const Value& value) noexcept {
      std::size_t i = home(key);
      while (entries[i].key != 0) i = (i + 1) & (capacity - 1);
      entries[i] = {key, value};
      return &entries[i];
    }

    /// A key that is not there yet. Null: no memory for a larger table.
    Entry* add(std::uint64_t key, const Value& value) noexcept {
      if ((size + 1) * 4 > capacity * 3 && !grow()) return nullptr;
      ++size;
      return place(key, value);
    }

    bool insert(std::uint64_t key, const Value& value) noexcept {
      if (Entry* present = locate(key); present != nullptr) {
        present->value = value;
        return true;
      }
      return add(key, value) != nullptr;
    }

    // Moves later members of the probe sequence up, so that no tombstones slow later lookups.
    void erase(Entry* entry) noexcept {
      std::size_t hole = static_cast<std::size_t>(entry - entries);
      for (std::size_t i = (hole + 1) & (capacity - 1); entries[i].key != 0; i = (i + 1) & (capacity - 1)) {
        const std::size_t wanted = home(entries[i].key);
        if (((i - wanted) & (capacity - 1)) >= ((i - hole) & (capacity - 1))) {
          entries[hole] = entries[i];
          hole = i;
        }
      }
      entries[hole].key = 0;
      --size;
    }
  };

  Shard& shard_of(std::uint64_t key) noexcept { return shards_[(hash(key) >> 60) & (kShards - 1)]; }

  Shard shards_[kShards];
};

}  // namespace ration::shim
