// The pool: one address range into which physical granules are mapped where they are needed. It grows in place, moves
// unused granules to a place where a large block needs them, and gives whole granules back while the program runs. Used
// by libration/runtime. Promises: the device memory that the pool has taken never exceeds its limit, except after the
// limit was lowered below the amount taken; a denied request changes nothing; a foreign pointer is reported and changes
// nothing.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "pool/allocator.hpp"
#include "pool/backing.hpp"
#include "pool/brief_lock.hpp"
#include "pool/small_blocks.hpp"
#include "pool/thread_cache.hpp"
#include "pool/totals.hpp"
#include "pool/zone.hpp"

namespace ration::pool {

struct Options {
  Bytes limit = kUnlimited;    ///< the most that is taken from the device
  Bytes device;                ///< the device's total, from which the size of the address range follows
  bool growth = true;          ///< false: the pool takes all that the limit allows at the start
  Bytes min_block{kStep};      ///< smaller requests are rounded up to this
  double slack = 0.015;        ///< the pool takes up to this share above its peak use before it moves granules
  double relaxed_slack = 0.3;  ///< the slack while moving takes more driver calls than `calls_per_request`
  double calls_per_request = 0.1;
  bool moves = true;         ///< false: free granules stay where they are
  double reclaim_above = 1;  ///< the share of the limit above which free granules are moved before more are taken
};

/// An allocator on the driver's virtual memory management or on host memory. Thread-safe.
class Pool final : public Allocator {
 public:
  /// Makes a pool. Returns null and sets `failure` to the reason if it cannot.
  static std::unique_ptr<Pool> make(std::unique_ptr<Backing> backing, const Options& options, Failure& failure);
  ~Pool() override;

  Failure allocate(Stream stream, Bytes size, std::uint64_t alignment, std::uint64_t& address) override {
    const std::uint64_t wanted = std::max(size, options_.min_block).count();
    // A size or an alignment of 0 fails this test, too.
    if (wanted <= kMaxSmallBlock && size > Bytes{0} && alignment - 1 < kStep && (alignment & (alignment - 1)) == 0)
        [[likely]] {
      return ThreadCache::of(*this, number_, stream)->allocate(class_of(wanted), address);
    }
    return take_other(stream, Bytes{size}, alignment, address);
  }

  Failure deallocate(Stream stream, std::uint64_t address) override {
    if (!small_zone_->contains(address)) return give_large(stream, address);
    const SmallBlocks::Place place = small_->find(address);
    if (place.slab == nullptr) return give_large(stream, address);
    if (!place.exact) return Failure::kForeignPointer;
    std::atomic<BlockState>& state = place.slab->state_of(place.block);
    if (state.load(std::memory_order_relaxed) != BlockState::kLive) return Failure::kFreedPointer;
    return ThreadCache::of(*this, number_, stream)->keep(place.slab->size_class, {address, &state});
  }

  Bytes trim() override;
  void set_limit(Bytes limit) override;
  Statistics statistics() const override;
  void reset_peaks() override;
  int last_driver_error() const override;
  std::vector<Piece> pieces() const override;

  /// Makes the pool deny every request from now on; blocks stay valid until the pool is destroyed.
  void close();

  // The hooks for threads that end and for fork (registry.hpp).
  void thread_has_ended(ThreadCache& cache);
  void forked() noexcept;

 private:
  friend class ThreadCache;

  Pool(std::unique_ptr<Backing> backing, const Options& options);

  Failure take_other(Stream stream, Bytes size, std::uint64_t alignment, std::uint64_t& address);
  Failure take_large(Stream stream, Bytes size, std::uint64_t alignment, std::uint64_t& address);
  Failure give_large(Stream stream, std::uint64_t address);
  /// Returns the error with which every request fails from now on, or kNone.
  [[nodiscard]] Failure failing() const noexcept { return fails_with_; }

  // All functions below require lock_.
  StreamTag tag_of(Stream stream) { return streams_[0] == stream ? StreamTag{0} : find_tag(stream); }
  StreamTag find_tag(Stream stream);
  Failure take_run(Zone& zone, std::uint32_t units, std::uint32_t alignment, StreamTag tag, Run& out);
  Failure make_room(Zone& zone, std::uint32_t units, std::uint32_t alignment, StreamTag tag);
  bool join_streams(StreamTag into);
  void retag_all(StreamTag into);
  Failure finish(StreamTag into);
  Failure provide(std::uint32_t count, std::uint32_t units, Zone& zone, const Zone::Site& site);
  std::uint32_t allowed_by_slack(std::uint32_t units) const;
  std::uint32_t refill(int size_class, StreamTag tag, std::uint32_t count, CachedBlock* out, Failure& failure);
  void put_back(const CachedBlock& block, StreamTag tag);
  /// Puts a block back like put_back(), and gives memory that becomes unused back to the device. For use while the pool
  /// is over its limit.
  void give_back_over_limit(const CachedBlock& block, StreamTag tag);
  void destroy_spare();
  Bytes trim_locked();
  Failure failure_of(Outcome outcome);
  std::uint32_t taken() const noexcept;  // granules
  [[nodiscard]] bool is_over_limit() const noexcept { return taken() > limit_; }
  void empty_caches_of_all_threads() noexcept {
    for (const auto& cache : caches_) cache->make_stale();
  }
  [[nodiscard]] bool is_forked() const noexcept { return fails_with_ == Failure::kForked; }
  ThreadCache* new_cache(Stream stream);
  bool empty_caches_of_ended_threads();

  // These members are read without the lock by every request, and hardly ever written.
  std::unique_ptr<Zone> small_zone_, large_zone_;
  std::unique_ptr<SmallBlocks> small_;
  Options options_;
  const std::uint64_t number_;  // its number among all pools that this process ever made

  alignas(64) mutable BriefLock lock_;
  std::unique_ptr<Backing> backing_;
  std::uint32_t limit_ = 0;     // granules
  std::vector<Granule> spare_;  // taken from the device, mapped nowhere
  std::vector<Stream> streams_{0};
  CallRate call_rate_;
  Totals totals_;
  std::atomic<Failure> fails_with_{Failure::kNone};
  std::vector<std::unique_ptr<ThreadCache>> caches_;  // under lock_
};

}  // namespace ration::pool
