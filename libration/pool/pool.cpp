#include "pool/pool.hpp"

#include <algorithm>
#include <cmath>

#include "pool/registry.hpp"

namespace ration::pool {
namespace {

// The largest block that shares granules with small ones.
constexpr std::uint64_t kMaxSmallZoneBlock = std::uint64_t{1} << 20;
// The addresses that a pool reserves per byte of the device: enough for a large block to find a place every time, and
// no more, since the rest of the process needs device addresses, too.
constexpr std::uint64_t kAddressesPerByte = 4;
constexpr Bytes kDeviceIfUnknown{std::uint64_t{256} << 30};

std::uint32_t granules(Bytes size) noexcept {
  return static_cast<std::uint32_t>(round_up(size, kGranule).count() / kGranule.count());
}

}  // namespace

const char* describe(Failure failure) noexcept {
  switch (failure) {
    case Failure::kNone:
      return "nothing failed";
    case Failure::kOverLimit:
      return "the pool's limit does not allow it";
    case Failure::kDeviceFull:
      return "the device has no more memory to give";
    case Failure::kDeviceLost:
      return "the device is gone";
    case Failure::kDriver:
      return "the driver gave none";
    case Failure::kBadSize:
      return "no device has that much memory";
    case Failure::kBadAlignment:
      return "an alignment is a power of two of at most 2 MiB";
    case Failure::kForeignPointer:
      return "that address was not handed out by this pool";
    case Failure::kFreedPointer:
      return "that address has been given back already";
    case Failure::kForked:
      return "this process is a child of the one that made the pool; device memory does not survive a fork";
    case Failure::kClosed:
      return "the pool has been shut down";
  }
  return "an unknown failure";
}

// ------------------------------------------------------------------------------------------------- making and ending

Pool::Pool(std::unique_ptr<Backing> backing, const Options& options)
    : options_(options), number_(enter_pool(*this)), backing_(std::move(backing)) {
  limit_ = static_cast<std::uint32_t>(std::min(options.limit, kDeviceIfUnknown * 16).count() / kGranule.count());
}

std::unique_ptr<Pool> Pool::make(std::unique_ptr<Backing> backing, const Options& options, Failure& failure) {
  std::unique_ptr<Pool> pool(new Pool(std::move(backing), options));
  const Bytes device = options.device > Bytes{0} ? options.device : kDeviceIfUnknown;
  const std::uint32_t places = granules(device);
  const std::uint64_t large_places = places * kAddressesPerByte;
  std::uint64_t base = 0;
  failure = pool->failure_of(pool->backing_->reserve(kGranule * (places + large_places), base));
  if (failure != Failure::kNone) return nullptr;
  pool->small_zone_ = std::make_unique<Zone>(base, places);
  pool->large_zone_ =
      std::make_unique<Zone>(base + places * kGranule.count(), static_cast<std::uint32_t>(large_places));
  pool->small_ = std::make_unique<SmallBlocks>(*pool->small_zone_);
  if (!options.growth) {
    const std::lock_guard guard(pool->lock_);
    const std::uint32_t wanted = std::min(pool->limit_, granules(pool->backing_->available()));
    failure = wanted == 0 ? Failure::kDeviceFull
                          : pool->make_room(*pool->large_zone_, wanted * kUnitsPerGranule, 1, pool->tag_of(0));
    if (failure != Failure::kNone) return nullptr;
  }
  return pool;
}

Pool::~Pool() {
  leave_pool(number_);
  if (is_forked() || small_zone_ == nullptr) return;
  (void)backing_->finish();
  for (Zone* zone : {small_zone_.get(), large_zone_.get()}) {
    zone->each_mapped([&](std::uint32_t first, std::uint32_t count) {
      (void)backing_->unmap(zone->place_address(first), kGranule * count);
      for (std::uint32_t i = 0; i < count; ++i) backing_->destroy(zone->granule_at(first + i));
    });
  }
  destroy_spare();
}

void Pool::close() {
  const std::lock_guard guard(lock_);
  if (!is_forked()) fails_with_ = Failure::kClosed;
  empty_caches_of_all_threads();
}

void Pool::forked() noexcept {
  lock_.unlock();  // the thread that held it is not in this process
  fails_with_ = Failure::kForked;
  empty_caches_of_all_threads();
}

ThreadCache* Pool::new_cache(Stream stream) {
  const std::lock_guard guard(lock_);
  ThreadCache* cache = nullptr;
  empty_caches_of_ended_threads();
  for (const auto& known : caches_) {
    if (known->is_idle()) cache = known.get();
  }
  if (cache == nullptr) cache = caches_.emplace_back(std::make_unique<ThreadCache>(*this)).get();
  cache->start(tag_of(stream));
  return cache;
}

// Calls no driver function, because the driver may already have freed its own data of the thread. The blocks go back to
// their slabs when they are needed.
void Pool::thread_has_ended(ThreadCache& cache) {
  const std::lock_guard guard(lock_);
  cache.publish();
  cache.set_idle(true);
}

bool Pool::empty_caches_of_ended_threads() {
  bool any = false;
  for (const auto& cache : caches_) any = (cache->is_idle() && cache->empty()) || any;
  return any;
}

// ------------------------------------------------------------------------------------------------ taking and giving

Failure Pool::take_other(Stream stream, Bytes size, std::uint64_t alignment, std::uint64_t& address) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > kGranule.count())
    return Failure::kBadAlignment;
  if (size > kUnlimited) return Failure::kBadSize;
  if (size == Bytes{0}) {
    address = 0;
    return Failure::kNone;
  }
  return take_large(stream, std::max(size, options_.min_block), alignment, address);
}

Failure Pool::take_large(Stream stream, Bytes size, std::uint64_t alignment, std::uint64_t& address) {
  const auto units = (size.count() + kUnit.count() - 1) / kUnit.count();
  if (units > UINT32_MAX / 2) return Failure::kOverLimit;
  const auto unit_alignment = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, alignment / kUnit.count()));
  ThreadCache& own = *ThreadCache::of(*this, number_, stream);
  const std::lock_guard guard(lock_);
  own.publish();  // so that the peak is exact
  if (const Failure failure = failing(); failure != Failure::kNone) return failure;
  Zone& zone = size.count() <= kMaxSmallZoneBlock ? *small_zone_ : *large_zone_;
  Run run;
  const Failure failure = take_run(zone, static_cast<std::uint32_t>(units), unit_alignment, tag_of(stream), run);
  if (failure != Failure::kNone) return failure;
  address = zone.address_of(run.start);
  const std::uint64_t bytes = run.count * kUnit.count();
  totals_.took(bytes);
  return Failure::kNone;
}

Failure Pool::give_large(Stream stream, std::uint64_t address) {
  if (address == 0) return Failure::kNone;
  if (is_forked()) return Failure::kForked;
  ThreadCache& own = *ThreadCache::of(*this, number_, stream);
  const std::lock_guard guard(lock_);
  own.publish();
  Zone* zone = small_zone_->contains(address)   ? small_zone_.get()
               : large_zone_->contains(address) ? large_zone_.get()
                                                : nullptr;
  if (zone == nullptr || address % kUnit.count() != 0) return Failure::kForeignPointer;
  const std::uint32_t unit = zone->unit_of(address);
  const Run run = zone->runs().held(unit);
  if (run.count == 0) return Failure::kFreedPointer;
  zone->runs().release(unit, tag_of(stream));
  totals_.units_in_use -= run.count;
  totals_.gave(run.count * kUnit.count());
  if (is_over_limit()) (void)trim_locked();  // use is still above a lowered limit
  return Failure::kNone;
}

StreamTag Pool::find_tag(Stream stream) {
  const auto found = std::find(streams_.begin(), streams_.end(), stream);
  if (found != streams_.end()) return static_cast<StreamTag>(found - streams_.begin());
  streams_.push_back(stream);
  return static_cast<StreamTag>(streams_.size() - 1);
}

std::uint32_t Pool::refill(int size_class, StreamTag tag, std::uint32_t count, CachedBlock* out, Failure& failure) {
  std::uint32_t got = small_->take(size_class, tag, count, out);
  if (got == 0 && empty_caches_of_ended_threads()) got = small_->take(size_class, tag, count, out);
  if (got > 0) return got;
  Run run;
  failure = take_run(*small_zone_, SmallBlocks::slab_units(size_class), 1, tag, run);
  if (failure != Failure::kNone) return 0;
  small_->add_slab(size_class, tag, run);
  return small_->take(size_class, tag, count, out);
}

void Pool::put_back(const CachedBlock& block, StreamTag tag) {
  const Slab& slab = *small_->find(block.address).slab;
  if (slab.tag != tag && slab.idle > 0) (void)backing_->order(streams_[slab.tag], streams_[tag]);
  small_->put_back(block, tag);
}

void Pool::give_back_over_limit(const CachedBlock& block, StreamTag tag) {
  put_back(block, tag);
  const Slab& slab = *small_->find(block.address).slab;
  if (slab.idle == slab.blocks) (void)trim_locked();
}

Failure Pool::take_run(Zone& zone, std::uint32_t units, std::uint32_t alignment, StreamTag tag, Run& out) {
  call_rate_.count_request();
  if (!zone.runs().take(units, alignment, tag, out) &&
      !(zone.runs().free_units() - zone.runs().free_units(tag) > 0 && join_streams(tag) &&
        zone.runs().take(units, alignment, tag, out))) {
    if (const Failure failure = make_room(zone, units, alignment, tag); failure != Failure::kNone) return failure;
    if (!zone.runs().take(units, alignment, tag, out)) return Failure::kDriver;  // cannot happen: room was just made
  }
  totals_.units_in_use += units;
  totals_.peak_units_in_use = std::max(totals_.peak_units_in_use, totals_.units_in_use);
  return Failure::kNone;
}

bool Pool::join_streams(StreamTag into) {
  for (std::size_t tag = 0; tag < streams_.size(); ++tag) {
    if (tag != into && failure_of(backing_->order(streams_[tag], streams_[into])) != Failure::kNone) return false;
  }
  retag_all(into);
  return true;
}

void Pool::retag_all(StreamTag into) {
  for (std::size_t tag = 0; tag < streams_.size(); ++tag) {
    const auto from = static_cast<StreamTag>(tag);
    if (from == into) continue;
    small_zone_->runs().retag(from, into);
    large_zone_->runs().retag(from, into);
    small_->retag(from, into);
  }
}

/// Waits for all streams. Freed memory may then be moved, and any stream may get it.
Failure Pool::finish(StreamTag into) {
  const Failure failure = failure_of(backing_->finish());
  if (failure == Failure::kNone) retag_all(into);
  return failure;
}

// ------------------------------------------------------------------------------------------ memory from the device

std::uint32_t Pool::taken() const noexcept {
  return small_zone_->mapped() + large_zone_->mapped() + static_cast<std::uint32_t>(spare_.size());
}

Failure Pool::failure_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOk:
      return Failure::kNone;
    case Outcome::kOutOfMemory:
      return Failure::kDeviceFull;
    case Outcome::kDeviceLost:
      if (failing() == Failure::kNone) fails_with_ = Failure::kDeviceLost;
      return Failure::kDeviceLost;
    case Outcome::kFailed:
      break;
  }
  return Failure::kDriver;
}

Failure Pool::make_room(Zone& zone, std::uint32_t units, std::uint32_t alignment, StreamTag tag) {
  if (is_over_limit()) (void)trim_locked();
  if (is_over_limit()) return Failure::kOverLimit;
  const Zone::Site site = zone.best_site(units, alignment, tag);
  // No range of addresses is left for the run, although the pool has kAddressesPerByte for each byte of the device.
  if (site.count == 0) return Failure::kOverLimit;
  if (const Failure failure = provide(site.count, units, zone, site); failure != Failure::kNone) {
    destroy_spare();
    return failure;
  }
  const Granule* first = spare_.data() + spare_.size() - site.count;
  const Outcome outcome = backing_->map(zone.place_address(site.first), first, site.count);
  if (outcome != Outcome::kOk) {
    destroy_spare();
    return failure_of(outcome);
  }
  zone.add(site, first, tag);
  spare_.resize(spare_.size() - site.count);
  return Failure::kNone;
}

/// Returns the number of granules up to which the pool takes new ones. Above that number, free granules are moved
/// instead. The slack is larger while moving takes too many driver calls per request.
std::uint32_t Pool::allowed_by_slack(std::uint32_t units) const {
  const bool moving_costs = call_rate_.is_above(options_.calls_per_request);
  const double slack = moving_costs ? options_.relaxed_slack : options_.slack;
  const std::uint64_t most = std::max(totals_.peak_units_in_use, totals_.units_in_use + units);
  const double allowed = std::ceil(static_cast<double>(most) / kUnitsPerGranule * (1.0 + slack));
  return static_cast<std::uint32_t>(std::min(allowed, options_.reclaim_above * limit_));
}

/// Provides `count` spare granules: from the device up to the slack, then from unused parts of the pool, then from the
/// device up to the limit.
Failure Pool::provide(std::uint32_t count, std::uint32_t units, Zone& zone, const Zone::Site& site) {
  const auto missing = [&] { return count - std::min(count, static_cast<std::uint32_t>(spare_.size())); };
  const auto room = [&] { return limit_ > taken() ? limit_ - taken() : 0U; };
  Failure refused = Failure::kOverLimit;
  const auto create = [&](std::uint32_t at_most) {
    while (at_most-- > 0) {
      Granule made = 0;
      refused = failure_of(backing_->create(made));
      if (refused != Failure::kNone) return;
      spare_.push_back(made);
    }
    totals_.peak_taken = std::max(totals_.peak_taken, taken());
  };
  Zone& other = &zone == small_zone_.get() ? *large_zone_ : *small_zone_;
  const std::uint32_t allowed = allowed_by_slack(units);
  if (!options_.moves)
    create(std::min(missing(), room()));
  else if (missing() > 0 && taken() < allowed)
    create(std::min({missing(), room(), allowed - taken()}));
  if (missing() == 0) return Failure::kNone;
  if (refused == Failure::kDeviceLost) return refused;
  const bool device_full = refused == Failure::kDeviceFull;
  // Counts the free granules first, so that nothing is moved for a request that will be denied.
  (void)empty_caches_of_ended_threads();
  (void)small_->drop_idle();
  const std::uint32_t idle = options_.moves ? zone.harvestable(site) + other.harvestable({}) : 0;
  if (missing() > idle + (device_full ? 0U : room())) {
    empty_caches_of_all_threads();  // the blocks that threads keep are free when the program asks again
    return device_full ? Failure::kDeviceFull : Failure::kOverLimit;
  }
  if (idle > 0) {
    if (const Failure failure = failure_of(backing_->finish()); failure != Failure::kNone) return failure;
    const std::uint64_t calls_before = backing_->calls();
    for (Zone* source : {&zone, &other}) {
      source->harvest(missing(), source == &zone ? site : Zone::Site{}, spare_, [&](auto first, auto granule_count) {
        const Outcome outcome = backing_->unmap(source->place_address(first), kGranule * granule_count);
        if (outcome != Outcome::kOk) refused = failure_of(outcome);
        return outcome == Outcome::kOk;
      });
    }
    call_rate_.count_calls(backing_->calls() - calls_before + count);
  }
  if (missing() > 0 && failing() == Failure::kNone) create(std::min(missing(), room()));
  if (missing() == 0) return Failure::kNone;
  return refused == Failure::kNone ? Failure::kOverLimit : refused;
}

void Pool::destroy_spare() {
  for (const Granule granule : spare_) backing_->destroy(granule);
  spare_.clear();
}

Bytes Pool::trim_locked() {
  const std::uint32_t before = taken();
  (void)empty_caches_of_ended_threads();
  (void)small_->drop_idle();
  if (small_zone_->runs().free_units() + large_zone_->runs().free_units() > 0 && finish(0) == Failure::kNone) {
    for (Zone* zone : {small_zone_.get(), large_zone_.get()}) {
      zone->harvest(UINT32_MAX, {}, spare_, [&](auto first, auto count) {
        return backing_->unmap(zone->place_address(first), kGranule * count) == Outcome::kOk;
      });
    }
  }
  destroy_spare();
  return kGranule * (before - taken());
}

Bytes Pool::trim() {
  const std::lock_guard guard(lock_);
  if (failing() != Failure::kNone) return Bytes{0};
  empty_caches_of_all_threads();
  for (const auto& cache : caches_) {
    if (!cache->is_idle() && ThreadCache::is_own(*cache)) (void)cache->empty();
  }
  return trim_locked();
}

void Pool::set_limit(Bytes limit) {
  const std::lock_guard guard(lock_);
  limit_ = static_cast<std::uint32_t>(std::min(limit, kDeviceIfUnknown * 16).count() / kGranule.count());
  options_.limit = limit;
  if (taken() <= limit_ || failing() != Failure::kNone) return;
  empty_caches_of_all_threads();
  (void)trim_locked();
}

// ------------------------------------------------------------------------------------------------------ inspection

Statistics Pool::statistics() const {
  const std::lock_guard guard(lock_);
  Statistics result;
  std::int64_t in_use = totals_.bytes_in_use;
  result.num_allocs = totals_.allocations;
  result.live_blocks = totals_.live;
  result.largest_alloc_size = totals_.largest;
  std::int64_t unpublished_high = 0;
  for (const auto& cache : caches_) {
    in_use += cache->counts().unpublished();
    unpublished_high += cache->counts().highest();
    result.num_allocs += cache->counts().allocations();
    result.largest_alloc_size = std::max(result.largest_alloc_size, cache->counts().largest());
  }
  result.bytes_in_use = static_cast<std::uint64_t>(std::max<std::int64_t>(in_use, 0));
  // Exact with one thread. With several, the sum of their unreported peaks may be too high.
  result.peak_bytes_in_use = static_cast<std::uint64_t>(
      std::max({totals_.peak_bytes_in_use, totals_.bytes_in_use + unpublished_high, std::int64_t{0}}));
  small_->each([&](const Slab& slab) { result.live_blocks += slab.live(); });
  result.bytes_limit = options_.limit.count();
  result.bytes_reservable_limit = options_.limit.count();
  result.bytes_reserved = result.pool_bytes = (kGranule * taken()).count();
  result.peak_bytes_reserved = result.peak_pool_bytes = (kGranule * totals_.peak_taken).count();
  result.largest_free_block_bytes =
      std::max(small_zone_->runs().largest_free(), large_zone_->runs().largest_free()) * kUnit.count();
  result.driver_calls = backing_->calls();
  result.host_bytes = small_zone_->host_bytes() + large_zone_->host_bytes() + small_->host_bytes() +
                      caches_.size() * sizeof(ThreadCache) + spare_.capacity() * sizeof(Granule);
  return result;
}

void Pool::reset_peaks() {
  const std::lock_guard guard(lock_);
  std::int64_t in_use = totals_.bytes_in_use;
  for (const auto& cache : caches_) {
    in_use += cache->counts().unpublished();
    cache->counts().forget_highest();
  }
  totals_.peak_bytes_in_use = in_use;
  totals_.peak_taken = taken();
}

int Pool::last_driver_error() const {
  const std::lock_guard guard(lock_);
  return backing_->last_error();
}

std::vector<Allocator::Piece> Pool::pieces() const {
  const std::lock_guard guard(lock_);
  std::vector<Piece> result;
  for (const Zone* zone : {small_zone_.get(), large_zone_.get()}) {
    const auto add = [&](Run run, Piece::State state) {
      result.push_back({zone->address_of(run.start), run.count * kUnit.count(), state, 0});
    };
    zone->runs().each_free([&](Run run, StreamTag) { add(run, Piece::State::kFree); });
    zone->runs().each_held([&](Run run) { add(run, Piece::State::kHeld); });
  }
  std::sort(result.begin(), result.end(),
            [](const Piece& left, const Piece& right) { return left.address < right.address; });
  small_->each([&](const Slab& slab) {
    const std::uint64_t address = small_zone_->address_of(slab.start);
    const auto found = std::lower_bound(result.begin(), result.end(), address,
                                        [](const Piece& piece, std::uint64_t value) { return piece.address < value; });
    found->state = Piece::State::kSmallBlocks;
    found->in_use = std::uint64_t{slab.live()} * slab.block_size;
  });
  return result;
}

}  // namespace ration::pool
