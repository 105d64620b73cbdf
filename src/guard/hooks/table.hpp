// A hash table from a 64-bit key (a pointer, a handle) to a small value, for state that lives inside other people's
// processes. Used by the guard's hooks. Promises: insert, find and erase in O(1) whatever the number of entries; memory
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

namespace ration::guard {

/// A lock that is held for a few instructions. A waiting thread yields when the holder seems to have lost its
/// processor.
class SpinLock {
 public:
  void lock() noexcept {
    for (int tries = 0; flag_.exchange(true, std::memory_order_acquire); ++tries) {
      if (tries % 128 == 127) ::sched_yield();
    }
  }
  /// Waits until the current holder has released the lock.
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

/// A hash table by key. The key 0 is never found and cannot be inserted. Thread-safe.
template <typename Value>
class Table {
  static_assert(std::is_trivially_copyable_v<Value>);

 public:
  /// Sets the value of `key`. Returns false, and inserts nothing, if there is no memory for a larger table or the key
  /// is 0.
  bool insert(std::uint64_t key, const Value& value) noexcept {
    Shard& shard = shard_of(key);
    const SpinGuard guard(shard.lock);
    Entry* entry = shard.locate_or_add(key);
    if (entry == nullptr) return false;
    *entry = {key, value};
    return true;
  }

  /// Inserts like insert(), but returns true if `key` was there already, and sets `before` to its former value.
  bool replace(std::uint64_t key, const Value& value, Value& before) noexcept {
    Shard& shard = shard_of(key);
    const SpinGuard guard(shard.lock);
    Entry* entry = shard.locate_or_add(key);
    if (entry == nullptr) return false;
    const bool present = entry->key == key;
    if (present) before = entry->value;
    *entry = {key, value};
    return present;
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

  /// Changes the value of `key` (default-constructed if `key` is new) under the table's lock. `change(Value&)` returns
  /// true to keep the entry. Returns false if there is no memory for a new entry.
  template <typename Change>
  bool update(std::uint64_t key, Change&& change) noexcept {
    Shard& shard = shard_of(key);
    const SpinGuard guard(shard.lock);
    Entry* entry = shard.locate_or_add(key);
    if (entry == nullptr) return false;
    if (entry->key != key) *entry = {key, Value{}};
    if (!change(entry->value)) shard.erase(entry);
    return true;
  }

  /// Removes every entry for which `leaves(key, value)` returns true. Calls `leaves` under the lock of the entry's
  /// shard, and perhaps twice for an entry that stays but has to move. Slow, because it walks the whole table.
  template <typename Leaves>
  void remove_if(Leaves&& leaves) noexcept {
    for (Shard& shard : shards_) {
      const SpinGuard guard(shard.lock);
      for (std::size_t i = 0; i < shard.capacity;) {
        Entry& entry = shard.entries[i];
        if (entry.key != 0 && leaves(entry.key, entry.value)) {
          shard.erase(&entry);  // another entry may have moved to index i, so this looks there again
        } else {
          ++i;
        }
      }
    }
  }

  /// Calls `visit(key, value)` for every entry, under the lock of its shard.
  template <typename Visit>
  void each(Visit&& visit) noexcept {
    for (Shard& shard : shards_) {
      const SpinGuard guard(shard.lock);
      for (std::size_t i = 0; i < shard.capacity; ++i) {
        if (shard.entries[i].key != 0) visit(shard.entries[i].key, shard.entries[i].value);
      }
    }
  }

  /// Empties the table in a child after fork, where a thread that no longer exists may have held a lock.
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
    std::uint64_t key;  // 0 if the entry is empty
    Value value;
  };

  // Hashes a key by Fibonacci hashing, because pointers differ mostly in their middle bits.
  static std::uint64_t hash(std::uint64_t key) noexcept { return (key >> 8 ^ key) * 0x9e3779b97f4a7c15U; }

  struct alignas(64) Shard {
    SpinLock lock;
    Entry* entries = nullptr;
    std::size_t capacity = 0;  // a power of two
    std::size_t size = 0;

    std::size_t home(std::uint64_t key) const noexcept { return (hash(key) >> 32) & (capacity - 1); }

    /// Returns the entry of the key, or the empty one where it belongs; a table is never full.
    Entry* seek(std::uint64_t key) const noexcept {
      std::size_t i = home(key);
      while (entries[i].key != 0 && entries[i].key != key) i = (i + 1) & (capacity - 1);
      return &entries[i];
    }

    Entry* locate(std::uint64_t key) const noexcept {
      if (size == 0 || key == 0) return nullptr;  // an empty entry has the key 0
      Entry* entry = seek(key);
      return entry->key == key ? entry : nullptr;
    }

    /// Returns the entry of the key, or an empty one that is reserved for it and that the caller fills. Returns null if
    /// the key is 0, or if the key is new and there is no memory for a larger table.
    Entry* locate_or_add(std::uint64_t key) noexcept {
      if (key == 0) [[unlikely]]
        return nullptr;
      if ((size + 1) * 4 > capacity * 3 && !grow()) [[unlikely]]
        return locate(key);
      Entry* entry = seek(key);
      size += entry->key != key ? 1 : 0;
      return entry;
    }

    [[gnu::noinline]] bool grow() noexcept {
      const std::size_t wider = capacity == 0 ? kFirstCapacity : capacity * 2;
      void* memory = ::mmap(nullptr, wider * sizeof(Entry), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) return false;
      Entry* old = entries;
      const std::size_t old_capacity = capacity;
      entries = static_cast<Entry*>(memory);
      capacity = wider;
      for (std::size_t i = 0; i < old_capacity; ++i) {
        if (old[i].key != 0) *seek(old[i].key) = old[i];
      }
      if (old != nullptr) ::munmap(old, old_capacity * sizeof(Entry));
      return true;
    }

    // Erases the entry and moves later members of its probe sequence up, so that no tombstones slow later look-ups.
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

}  // namespace ration::guard
