#include "sim/workload/allocators.hpp"

#include <algorithm>

#include "sim/workload/driver_calls.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::size_t rounded(std::size_t size, std::size_t step) { return (size + step - 1) / step * step; }

class Plain final : public Allocator {
 public:
  std::optional<CUdeviceptr> allocate(std::size_t size) override {
    CUdeviceptr address = 0;
    last_refusal_ = DRIVER(cuMemAlloc_v2)(&address, size);
    if (last_refusal_ != CUDA_SUCCESS) return std::nullopt;
    sizes_[address] = size;
    took(size);
    return address;
  }
  void free(CUdeviceptr address) override {
    DRIVER(cuMemFree_v2)(address);
    gave(sizes_[address]);
    sizes_.erase(address);
  }

 private:
  std::unordered_map<CUdeviceptr, std::size_t> sizes_;
};

class Async final : public Allocator {
 public:
  std::optional<CUdeviceptr> allocate(std::size_t size) override {
    CUdeviceptr address = 0;
    last_refusal_ = DRIVER(cuMemAllocAsync)(&address, size, nullptr);
    if (last_refusal_ != CUDA_SUCCESS) return std::nullopt;
    sizes_[address] = size;
    took(size);
    return address;
  }
  void free(CUdeviceptr address) override {
    DRIVER(cuMemFreeAsync)(address, nullptr);
    gave(sizes_[address]);
    sizes_.erase(address);
  }

 private:
  std::unordered_map<CUdeviceptr, std::size_t> sizes_;
};

class Virtual final : public Allocator {
 public:
  Virtual() {
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    DRIVER(cuMemGetAllocationGranularity)(&granularity_, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  }
  std::optional<CUdeviceptr> allocate(std::size_t size) override {
    const std::size_t whole = rounded(size, granularity_);
    CUdeviceptr address = 0;
    CUmemGenericAllocationHandle handle = 0;
    last_refusal_ = DRIVER(cuMemCreate)(&handle, whole, &properties_, 0);
    if (last_refusal_ != CUDA_SUCCESS) return std::nullopt;
    const CUmemAccessDesc access{properties_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (DRIVER(cuMemAddressReserve)(&address, whole, 0, 0, 0) != CUDA_SUCCESS ||
        DRIVER(cuMemMap)(address, whole, 0, handle, 0) != CUDA_SUCCESS ||
        DRIVER(cuMemSetAccess)(address, whole, &access, 1) != CUDA_SUCCESS) {
      DRIVER(cuMemRelease)(handle);
      return std::nullopt;
    }
    DRIVER(cuMemRelease)(handle);  // the mapping keeps the memory
    sizes_[address] = whole;
    took(whole);
    return address;
  }
  void free(CUdeviceptr address) override {
    const std::size_t whole = sizes_[address];
    DRIVER(cuMemUnmap)(address, whole);
    DRIVER(cuMemAddressFree)(address, whole);
    gave(whole);
    sizes_.erase(address);
  }

 private:
  CUmemAllocationProp properties_{};
  std::size_t granularity_ = 2 * kMiB;
  std::unordered_map<CUdeviceptr, std::size_t> sizes_;
};

}  // namespace

std::unique_ptr<Allocator> make_direct(const std::string& via) {
  if (via == "malloc") return std::make_unique<Plain>();
  if (via == "async") return std::make_unique<Async>();
  if (via == "vmm") return std::make_unique<Virtual>();
  return nullptr;
}

RegionAllocator::RegionAllocator(Kind kind, std::size_t reserve) : kind_(kind) {
  if (kind_ != Kind::kGrab) return;
  std::size_t available = 0, total = 0;
  DRIVER(cuMemGetInfo_v2)(&available, &total);
  if (available <= reserve) return;
  // If small blocks of others divide the free memory, a request for all of it fails. Each further request is a little
  // smaller, as TensorFlow's are.
  for (std::size_t wanted = (available - reserve) / (2 * kMiB) * (2 * kMiB); wanted > 0;
       wanted = wanted / 20 * 19 / kMiB * kMiB) {
    if (take_region(wanted)) break;
  }
}

RegionAllocator::~RegionAllocator() {
  for (const auto& [address, size] : regions_) DRIVER(cuMemFree_v2)(address);
}

bool RegionAllocator::take_region(std::size_t size) {
  CUdeviceptr address = 0;
  last_refusal_ = DRIVER(cuMemAlloc_v2)(&address, size);
  if (last_refusal_ != CUDA_SUCCESS) return false;
  regions_[address] = size;
  parts_[address] = {size, false, address};
  free_parts_of(address).emplace(size, address);
  took(size);
  return true;
}

bool RegionAllocator::grow(std::size_t size) {
  if (kind_ == Kind::kGrab) {
    last_refusal_ = CUDA_ERROR_OUT_OF_MEMORY;
    return false;
  }
  if (kind_ == Kind::kCache) {
    const std::size_t segment = size <= kMiB ? 2 * kMiB : size < 10 * kMiB ? 20 * kMiB : rounded(size, 2 * kMiB);
    return take_region(segment) || (return_free_regions() && take_region(segment));
  }
  while (next_region_ < size) next_region_ *= 2;
  for (std::size_t wanted = next_region_; wanted >= size; wanted = wanted * 9 / 10 / 256 * 256) {
    if (!take_region(wanted)) continue;
    next_region_ *= 2;
    return true;
  }
  return take_region(size);
}

bool RegionAllocator::return_free_regions() {
  bool any = false;
  for (auto region = regions_.begin(); region != regions_.end();) {
    const auto part = parts_.find(region->first);
    if (part->second.used || part->second.size != region->second) {
      ++region;
      continue;
    }
    free_parts_of(region->first).erase({part->second.size, part->first});
    parts_.erase(part);
    DRIVER(cuMemFree_v2)(region->first);
    gave(region->second);
    region = regions_.erase(region);
    any = true;
  }
  return any;
}

std::optional<CUdeviceptr> RegionAllocator::best_fit(std::size_t size) {
  auto& candidates = free_parts_[kind_ == Kind::kCache && size <= kMiB ? 1 : 0];
  const auto fit = candidates.lower_bound({size, 0});
  if (fit == candidates.end()) return std::nullopt;
  const CUdeviceptr address = fit->second;
  candidates.erase(fit);
  Part& part = parts_[address];
  const std::size_t rest = part.size - size;
  if (rest > 0 && (part.size >= 2 * size || rest >= 128 * kMiB || kind_ == Kind::kCache)) {
    parts_[address + size] = {rest, false, part.region};
    candidates.emplace(rest, address + size);
    part.size = size;
  }
  part.used = true;
  return address;
}

std::optional<CUdeviceptr> RegionAllocator::allocate(std::size_t size) {
  const std::size_t whole = rounded(size, kind_ == Kind::kCache ? 512 : 256);
  if (const auto address = best_fit(whole)) return address;
  return grow(whole) ? best_fit(whole) : std::nullopt;
}

void RegionAllocator::free(CUdeviceptr address) {
  auto part = parts_.find(address);
  part->second.used = false;
  auto& candidates = free_parts_of(part->second.region);
  if (const auto next = std::next(part);
      next != parts_.end() && !next->second.used && next->second.region == part->second.region) {
    candidates.erase({next->second.size, next->first});
    part->second.size += next->second.size;
    parts_.erase(next);
  }
  if (part != parts_.begin()) {
    if (const auto before = std::prev(part); !before->second.used && before->second.region == part->second.region) {
      candidates.erase({before->second.size, before->first});
      before->second.size += part->second.size;
      parts_.erase(part);
      part = before;
    }
  }
  candidates.emplace(part->second.size, part->first);
}

std::size_t tensorflow_reserve(std::size_t free, int capability_major) {
  if (free < std::size_t{2} << 30) return 225 * kMiB;
  if (capability_major <= 6) return 500 * kMiB;
  return (capability_major == 7 ? 1050 : capability_major == 8 ? 1536 : 1800) * kMiB;
}

}  // namespace ration::workload
