// The pool: one address range, physical granules put into it where they are needed. It grows in place, moves granules
// that nobody uses to where a large block has no room, and gives whole granules back while the program runs. Used by
// src/runtime. Promises: the device memory it has taken never exceeds its limit, but while a limit that was lowered is
// still being worked off; a refused request changes nothing; a pointer that is not its own is named and nothing happens.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "pool/allocator.hpp"
#include "pool/backing.hpp"
#include "pool/brief_lock.hpp"
#include "pool/small_blocks.hpp"
#include "pool/zone.hpp"

namespace ration::pool {

struct Options {
  Bytes limit = kUnlimited;    ///< at most so much is taken from the device
  Bytes device;                ///< the device's total: the address range is made for it
  bool growth = true;          ///< false: all that the limit allows is taken at the start
  Bytes min_block{kStep};      ///< smaller requests are rounded up to this
  double slack = 0.015;        ///< how much more than the peak in use is taken before granules are moved instead
  double relaxed_slack = 0.3;  ///< the same while moving them would cost more than `calls_per_request`
  double calls_per_request = 0.1;
};

class ThreadCache;

/// Thread-safe.
class Pool final : public Allocator {
 public:
  /// Null: `failure` says why.
  static std::unique_ptr<Pool> make(std::unique_ptr<Backing> backing, const Options& options, Failure& failure);
  ~Pool() override;

  Failure allocate(Stream stream, Bytes size, std::uint64_t alignment, std::uint64_t& address) override;
  Failure deallocate(Stream stream, std::uint64_t address) override;
  Bytes trim() override;
  void set_limit(Bytes limit) override;
  Statistics statistics() const override;
  void reset_peaks() override;
  int last_driver_error() const override;
  std::vector<Piece> pieces() const override;

  /// The pool refuses everything from now on; what is handed out stays where it is until the pool is destroyed.
  void close();

  // For threads that end and for fork (registry.hpp).
  void thread_has_ended(ThreadCache& cache);
  void forked() noexcept;

 private:
  friend class ThreadCache;
  enum class Life : std::uint8_t { kOpen, kForked, kClosed };

  Pool(std::unique_ptr<Backing> backing, const Options& options);

  Failure take_large(Stream stream, Bytes size, std::uint64_t alignment, std::uint64_t& address);
  Failure give_large(Stream stream, std::uint64_t address);
  Failure alive() const noexcept;

  // All below under lock_.
  StreamTag tag_of(Stream stream);
  Failure take_run(Zone& zone, std::uint32_t units, std::uint32_t alignment, StreamTag tag, Run& out);
  Failure make_room(Zone& zone, std::uint32_t units, std::uint32_t alignment, StreamTag tag);
  bool join_streams(StreamTag into);
  void retag_all(StreamTag into);
  Failure finish(StreamTag into);
  Failure provide(std::uint32_t count, std::uint32_t units, Zone& zone, const Zone::Site& site);
  std::uint32_t allowed_by_slack(std::uint32_t units) const;
  std::uint32_t refill(int size_class, StreamTag tag, std::uint32_t count, CachedBlock* out, Failure& failure);
  void put_back(const CachedBlock& block, StreamTag tag);
  void destroy_spare();
  Bytes trim_locked();
  Failure failure_of(Outcome outcome);
  std::uint32_t taken() const noexcept;  // granules
  void empty_caches_of_all_threads() noexcept { epoch_.fetch_add(1, std::memory_order_relaxed); }
  ThreadCache* new_cache(Stream stream);

  mutable BriefLock lock_;
  std::unique_ptr<Backing> backing_;
  Options options_;
  std::uint32_t limit_ = 0;  // granules
  std::uint64_t base_ = 0;
  std::unique_ptr<Zone> small_zone_, large_zone_;
  std::unique_ptr<SmallBlocks> small_;
  std::vector<Granule> spare_;  // taken from the device, mapped nowhere
  std::vector<Stream> streams_{0};
  std::uint64_t units_in_use_ = 0, peak_units_in_use_ = 0;
  std::uint32_t peak_taken_ = 0;
  double recent_calls_ = 0;  // driver calls for moving granules in the last 512 requests or so
  bool device_lost_ = false;
  Life life_ = Life::kOpen;

  // Statistics. Blocks above kLargestSmall under lock_; the others are counted by the thread caches.
  struct Counts {
    std::uint64_t allocations = 0, largest = 0, live = 0;
  } counts_;
  std::atomic<std::int64_t> bytes_in_use_{0};
  std::atomic<std::int64_t> peak_bytes_in_use_{0};
  void add_in_use(std::int64_t bytes) noexcept;
  void raise_peak(std::int64_t bytes) noexcept;

  // Bumped when the caches of all threads are to be emptied, or nothing is to be handed out any more.
  std::atomic<std::uint32_t> epoch_{1};
  const std::uint64_t number_;  // of all pools ever made in this process
  std::vector<std::unique_ptr<ThreadCache>> caches_;  // under lock_
};

}  // namespace ration::pool
