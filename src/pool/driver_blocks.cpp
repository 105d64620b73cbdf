#include "pool/driver_blocks.hpp"

#include <algorithm>

namespace ration::pool {

using namespace cuda;

namespace {

constexpr unsigned int CU_MEM_ATTACH_GLOBAL = 1;  // any stream may use it

}  // namespace

DriverBlocks::DriverBlocks(const driver::Driver& driver, CUdevice device, CUcontext context, Kind kind, Bytes limit)
    : driver_(driver), device_(device), context_(context), kind_(kind), limit_(limit) {
  if (kind_ != Kind::kAsync) return;
  // Memory stays in the driver's pool until trim(), as it does in ours.
  CUmemoryPool pool = nullptr;
  cuuint64_t keep = ~cuuint64_t{0};
  const driver::ContextScope scope(driver_, context_);
  if (driver_.cuDeviceGetDefaultMemPool(&pool, device_) == CUDA_SUCCESS)
    driver_.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
}

DriverBlocks::~DriverBlocks() {
  const driver::ContextScope scope(driver_, context_);
  for (const auto& [address, size] : sizes_) driver_.cuMemFree_v2(address);
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
      return driver_.cuMemAllocAsync(&given, bytes, stream);
    case Kind::kManaged:
      return driver_.cuMemAllocManaged(&given, bytes, CU_MEM_ATTACH_GLOBAL);
    case Kind::kDirect:
      break;
  }
  return driver_.cuMemAlloc_v2(&given, bytes);
}

Failure DriverBlocks::allocate(Stream stream, Bytes size, std::uint64_t alignment, std::uint64_t& address) {
  // What the driver hands out is aligned to 256 bytes (512 from a pool); more is not to be had without a pool.
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > 256) return Failure::kBadAlignment;
  if (size > kUnlimited) return Failure::kBadSize;
  address = 0;
  if (size == Bytes{0}) return Failure::kNone;
  const std::uint64_t bytes = round_up(size, Bytes{256}).count();
  const std::lock_guard guard(mutex_);
  if (Bytes{statistics_.bytes_in_use + bytes} > limit_) return Failure::kOverLimit;
  const driver::ContextScope scope(driver_, context_);
  ++statistics_.driver_calls;
  CUdeviceptr given = 0;
  const CUresult result = take(given, bytes, reinterpret_cast<CUstream>(stream));
  if (const Failure failure = failure_of(result); failure != Failure::kNone) return failure;
  address = given;
  sizes_[address] = bytes;
  ++statistics_.num_allocs;
  statistics_.bytes_in_use += bytes;
  statistics_.peak_bytes_in_use = std::max(statistics_.peak_bytes_in_use, statistics_.bytes_in_use);
  statistics_.largest_alloc_size = std::max(statistics_.largest_alloc_size, bytes);
  return Failure::kNone;
}

Failure DriverBlocks::deallocate(Stream stream, std::uint64_t address) {
  if (address == 0) return Failure::kNone;
  const std::lock_guard guard(mutex_);
  const auto block = sizes_.find(address);
  if (block == sizes_.end()) return Failure::kForeignPointer;
  const driver::ContextScope scope(driver_, context_);
  ++statistics_.driver_calls;
  const CUresult result = kind_ == Kind::kAsync ? driver_.cuMemFreeAsync(address, reinterpret_cast<CUstream>(stream))
                                                : driver_.cuMemFree_v2(address);
  if (const Failure failure = failure_of(result); failure != Failure::kNone) return failure;
  statistics_.bytes_in_use -= block->second;
  sizes_.erase(block);
  return Failure::kNone;
}

Bytes DriverBlocks::trim() {
  if (kind_ != Kind::kAsync) return Bytes{0};
  const std::lock_guard guard(mutex_);
  const driver::ContextScope scope(driver_, context_);
  CUmemoryPool pool = nullptr;
  cuuint64_t before = 0;
  cuuint64_t after = 0;
  if (driver_.cuDeviceGetDefaultMemPool(&pool, device_) != CUDA_SUCCESS || driver_.cuCtxSynchronize() != CUDA_SUCCESS)
    return Bytes{0};
  driver_.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &before);
  driver_.cuMemPoolTrimTo(pool, 0);
  driver_.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &after);
  return Bytes{before - std::min(before, after)};
}

void DriverBlocks::set_limit(Bytes limit) {
  {
    const std::lock_guard guard(mutex_);
    limit_ = limit;
  }
  (void)trim();
}

Statistics DriverBlocks::statistics() const {
  const std::lock_guard guard(mutex_);
  Statistics result = statistics_;
  result.bytes_limit = result.bytes_reservable_limit = limit_.count();
  result.live_blocks = sizes_.size();
  result.bytes_reserved = result.bytes_in_use;
  result.peak_bytes_reserved = result.peak_bytes_in_use;
  if (kind_ == Kind::kAsync) {
    const driver::ContextScope scope(driver_, context_);
    CUmemoryPool pool = nullptr;
    cuuint64_t reserved = 0;
    cuuint64_t highest = 0;
    if (driver_.cuDeviceGetDefaultMemPool(&pool, device_) == CUDA_SUCCESS &&
        driver_.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) == CUDA_SUCCESS &&
        driver_.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &highest) == CUDA_SUCCESS) {
      result.bytes_reserved = reserved;
      result.peak_bytes_reserved = highest;
    }
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
  for (const auto& [address, size] : sizes_) result.push_back({address, size, Piece::State::kHeld, 0});
  std::sort(result.begin(), result.end(),
            [](const Piece& left, const Piece& right) { return left.address < right.address; });
  return result;
}

}  // namespace ration::pool
