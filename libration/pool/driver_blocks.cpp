#include "pool/driver_blocks.hpp"

#include <algorithm>

namespace ration::pool {

using namespace cuda;

namespace {

constexpr unsigned int CU_MEM_ATTACH_GLOBAL = 1;  // any stream may use it
// The alignment of the driver's blocks. A block with a larger alignment is cut out of a larger block.
constexpr std::uint64_t kDriverAlignment = 256;
constexpr std::uint64_t kMaxAlignment = 2 << 20;
// The step by which the driver's pools grow, as seen on the drivers that src/guard/hooks/pools.cpp names.
constexpr Bytes kPoolStep{32 << 20};

}  // namespace

DriverBlocks::DriverBlocks(const driver::Driver& driver, CUdevice device, CUcontext context, Kind kind, Bytes limit)
    : driver_(driver), context_(context), kind_(kind), limit_(limit) {
  if (kind_ != Kind::kAsync) return;
  // Memory that other code takes from the default pool must not count against this limit.
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  const driver::ContextScope scope(driver_, context_);
  if (driver_.cuMemPoolCreate(&pool_, &properties) != CUDA_SUCCESS) {
    pool_ = nullptr;
    return;
  }
  cuuint64_t keep = ~cuuint64_t{0};  // memory stays in the pool until trim(), as in ration's own pool
  driver_.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
}

DriverBlocks::~DriverBlocks() {
  const driver::ContextScope scope(driver_, context_);
  for (const auto& [address, block] : blocks_) driver_.cuMemFree_v2(block.address);
  if (pool_ != nullptr) driver_.cuMemPoolDestroy(pool_);
}

Failure DriverBlocks::failure_of(CUresult result) {
  if (result == CUDA_SUCCESS) return Failure::kNone;
  last_error_ = result;
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return Failure::kDeviceFull;
  return result == CUDA_ERROR_DEVICE_UNAVAILABLE ? Failure::kDeviceLost : Failure::kDriver;
}

CUresult DriverBlocks::take(CUdeviceptr& given, std::size_t bytes, CUstream stream) {
  switch (kind_) {
    case Kind::kAsync:
      return pool_ == nullptr ? CUDA_ERROR_NOT_SUPPORTED
                              : driver_.cuMemAllocFromPoolAsync(&given, bytes, pool_, stream);
    case Kind::kManaged:
      return driver_.cuMemAllocManaged(&given, bytes, CU_MEM_ATTACH_GLOBAL);
    case Kind::kDirect:
      break;
  }
  return driver_.cuMemAlloc_v2(&given, bytes);
}

cuuint64_t DriverBlocks::of_pool(CUmemPool_attribute attribute) const {
  cuuint64_t value = 0;
  if (pool_ != nullptr) driver_.cuMemPoolGetAttribute(pool_, attribute, &value);
  return value;
}

/// Returns true if a request of `bytes` cannot make the driver's pool exceed the limit: the pool may still grow, or has
/// that many unused bytes.
bool DriverBlocks::pool_may_grow(std::uint64_t bytes) {
  const Bytes wanted = round_up(Bytes{bytes}, kPoolStep);
  if (Bytes{of_pool(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)} + wanted <= limit_) return true;
  (void)trim_pool();
  const std::uint64_t reserved = of_pool(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  return Bytes{reserved} + wanted <= limit_ ||
         (Bytes{reserved} <= limit_ && reserved - of_pool(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= bytes);
}

Failure DriverBlocks::allocate(Stream stream, Bytes size, std::uint64_t alignment, std::uint64_t& address) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > kMaxAlignment) return Failure::kBadAlignment;
  if (size > kUnlimited) return Failure::kBadSize;
  address = 0;
  if (size == Bytes{0}) return Failure::kNone;
  const std::uint64_t padding = alignment > kDriverAlignment ? alignment - kDriverAlignment : 0;
  const std::uint64_t bytes = round_up(size, Bytes{kDriverAlignment}).count() + padding;
  const std::lock_guard guard(mutex_);
  if (Bytes{statistics_.bytes_in_use + bytes} > limit_) return Failure::kOverLimit;
  const driver::ContextScope scope(driver_, context_);
  if (kind_ == Kind::kAsync && !pool_may_grow(bytes)) return Failure::kOverLimit;
  ++statistics_.driver_calls;
  CUdeviceptr given = 0;
  const CUresult result = take(given, bytes, reinterpret_cast<CUstream>(stream));
  if (const Failure failure = failure_of(result); failure != Failure::kNone) return failure;
  if (kind_ == Kind::kAsync && Bytes{of_pool(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)} > limit_) {
    // The spare memory lay in pieces, so the pool grew after all.
    driver_.cuMemFreeAsync(given, reinterpret_cast<CUstream>(stream));
    (void)trim_pool();
    return Failure::kOverLimit;
  }
  address = (given + alignment - 1) & ~(alignment - 1);
  blocks_[address] = {given, bytes};
  ++statistics_.num_allocs;
  statistics_.bytes_in_use += bytes;
  statistics_.peak_bytes_in_use = std::max(statistics_.peak_bytes_in_use, statistics_.bytes_in_use);
  statistics_.largest_alloc_size = std::max(statistics_.largest_alloc_size, bytes);
  return Failure::kNone;
}

Failure DriverBlocks::deallocate(Stream stream, std::uint64_t address) {
  if (address == 0) return Failure::kNone;
  const std::lock_guard guard(mutex_);
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return Failure::kForeignPointer;
  const driver::ContextScope scope(driver_, context_);
  ++statistics_.driver_calls;
  const CUdeviceptr given = block->second.address;
  const CUresult result = kind_ == Kind::kAsync ? driver_.cuMemFreeAsync(given, reinterpret_cast<CUstream>(stream))
                                                : driver_.cuMemFree_v2(given);
  if (const Failure failure = failure_of(result); failure != Failure::kNone) return failure;
  statistics_.bytes_in_use -= block->second.bytes;
  blocks_.erase(block);
  if (kind_ == Kind::kAsync && is_over_limit_ && trim_pool() > Bytes{0})
    is_over_limit_ = Bytes{of_pool(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)} > limit_;
  return Failure::kNone;
}

Bytes DriverBlocks::trim_pool() {
  if (pool_ == nullptr || driver_.cuCtxSynchronize() != CUDA_SUCCESS) return Bytes{0};
  const cuuint64_t before = of_pool(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  driver_.cuMemPoolTrimTo(pool_, 0);
  return Bytes{before - std::min(before, of_pool(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT))};
}

Bytes DriverBlocks::trim() {
  if (kind_ != Kind::kAsync) return Bytes{0};
  const std::lock_guard guard(mutex_);
  const driver::ContextScope scope(driver_, context_);
  return trim_pool();
}

void DriverBlocks::set_limit(Bytes limit) {
  const std::lock_guard guard(mutex_);
  limit_ = limit;
  if (kind_ != Kind::kAsync) return;
  const driver::ContextScope scope(driver_, context_);
  (void)trim_pool();
  is_over_limit_ = Bytes{of_pool(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)} > limit_;
}

Statistics DriverBlocks::statistics() const {
  const std::lock_guard guard(mutex_);
  Statistics result = statistics_;
  result.bytes_limit = result.bytes_reservable_limit = limit_.count();
  result.live_blocks = blocks_.size();
  result.bytes_reserved = result.bytes_in_use;
  result.peak_bytes_reserved = result.peak_bytes_in_use;
  if (kind_ == Kind::kAsync) {
    const driver::ContextScope scope(driver_, context_);
    result.bytes_reserved = of_pool(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    result.peak_bytes_reserved = of_pool(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
  }
  result.pool_bytes = result.bytes_reserved;
  result.peak_pool_bytes = result.peak_bytes_reserved;
  return result;
}

void DriverBlocks::reset_peaks() {
  const std::lock_guard guard(mutex_);
  statistics_.peak_bytes_in_use = statistics_.bytes_in_use;
}

int DriverBlocks::last_driver_error() const {
  const std::lock_guard guard(mutex_);
  return last_error_;
}

std::vector<Allocator::Piece> DriverBlocks::pieces() const {
  const std::lock_guard guard(mutex_);
  std::vector<Piece> result;
  for (const auto& [address, block] : blocks_) result.push_back({address, block.bytes, Piece::State::kHeld, 0});
  std::sort(result.begin(), result.end(),
            [](const Piece& left, const Piece& right) { return left.address < right.address; });
  return result;
}

}  // namespace ration::pool
