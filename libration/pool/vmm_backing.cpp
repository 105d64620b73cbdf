#include "pool/vmm_backing.hpp"

namespace ration::pool {

using namespace cuda;

namespace {

// The attribute CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED.
constexpr auto kHasVirtualMemory = static_cast<CUdevice_attribute>(102);

}  // namespace

Outcome outcome_of_driver(CUresult result) noexcept {
  switch (result) {
    case CUDA_SUCCESS:
      return Outcome::kOk;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return Outcome::kOutOfMemory;
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_DEINITIALIZED:
      return Outcome::kDeviceLost;
    default:
      return Outcome::kFailed;
  }
}

VmmBacking::VmmBacking(const driver::Driver& driver, CUdevice device, CUcontext context)
    : driver_(driver), device_(device), context_(context) {}

VmmBacking::~VmmBacking() {
  const driver::ContextScope scope(driver_, context_);
  if (base_ != 0) driver_.cuMemAddressFree(base_, reserved_.count());
}

bool VmmBacking::is_possible(const driver::Driver& driver, CUdevice device) {
  int supported = 0;
  return driver.cuMemCreate != nullptr && driver.cuMemMap != nullptr &&
         driver.cuDeviceGetAttribute(&supported, kHasVirtualMemory, device) == CUDA_SUCCESS && supported != 0;
}

Outcome VmmBacking::outcome_of(CUresult result) {
  ++calls_;
  if (result != CUDA_SUCCESS) last_error_ = result;
  return outcome_of_driver(result);
}

Outcome VmmBacking::reserve(Bytes size, std::uint64_t& base) {
  const driver::ContextScope scope(driver_, context_);
  CUdeviceptr given = 0;
  const Outcome outcome = outcome_of(driver_.cuMemAddressReserve(&given, size.count(), kGranule.count(), 0, 0));
  base = given;
  if (outcome == Outcome::kOk) {
    base_ = base;
    reserved_ = size;
  }
  return outcome;
}

Outcome VmmBacking::create(Granule& out) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
  const driver::ContextScope scope(driver_, context_);
  CUmemGenericAllocationHandle handle = 0;
  const Outcome outcome = outcome_of(driver_.cuMemCreate(&handle, kGranule.count(), &properties, 0));
  out = handle;
  return outcome;
}

void VmmBacking::destroy(Granule granule) {
  const driver::ContextScope scope(driver_, context_);
  (void)outcome_of(driver_.cuMemRelease(granule));
}

Outcome VmmBacking::map(std::uint64_t address, const Granule* granules, std::size_t count) {
  const driver::ContextScope scope(driver_, context_);
  Outcome outcome = Outcome::kOk;
  std::size_t mapped = 0;
  for (; mapped < count && outcome == Outcome::kOk; ++mapped) {
    outcome =
        outcome_of(driver_.cuMemMap(address + mapped * kGranule.count(), kGranule.count(), 0, granules[mapped], 0));
  }
  if (outcome == Outcome::kOk) {
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    outcome = outcome_of(driver_.cuMemSetAccess(address, count * kGranule.count(), &access, 1));
    if (outcome == Outcome::kOk) return outcome;
  } else {
    --mapped;  // the last one could not be mapped
  }
  const int error = last_error_;
  for (std::size_t i = 0; i < mapped; ++i)
    (void)outcome_of(driver_.cuMemUnmap(address + i * kGranule.count(), kGranule.count()));
  last_error_ = error;
  return outcome;
}

Outcome VmmBacking::unmap(std::uint64_t address, Bytes size) {
  const driver::ContextScope scope(driver_, context_);
  return outcome_of(driver_.cuMemUnmap(address, size.count()));
}

Outcome VmmBacking::order(Stream earlier, Stream later) {
  const driver::ContextScope scope(driver_, context_);
  return outcome_of(driver::order(driver_, reinterpret_cast<CUstream>(earlier), reinterpret_cast<CUstream>(later)));
}

Outcome VmmBacking::finish() {
  const driver::ContextScope scope(driver_, context_);
  return outcome_of(driver_.cuCtxSynchronize());
}

Bytes VmmBacking::available() {
  const driver::ContextScope scope(driver_, context_);
  std::size_t available = 0;
  std::size_t total = 0;
  return outcome_of(driver_.cuMemGetInfo_v2(&available, &total)) == Outcome::kOk ? Bytes{available} : kUnlimited;
}

}  // namespace ration::pool
