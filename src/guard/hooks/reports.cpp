// The memory figures that a governed program sees. The granted limit is shown as the whole device, so that the
// fractions that TensorFlow Serving, vLLM, Triton or JAX compute once are fractions of that limit. If the limit in
// force is lower, less is shown as free.
#include <algorithm>

#include "guard/hooks/governor.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/recorder/recorder.hpp"

using namespace ration::guard;
using namespace ration::cuda;

namespace {

template <typename Size, typename Function>
CUresult memory_info(Symbol symbol, Size* available, Size* total) noexcept {
  const CUresult result = real<Function>(symbol)(available, total);
  if (result != CUDA_SUCCESS || !governed()) return result;
  trim_if_asked();
  const std::uint32_t account = current_place().account;
  if (account == kNoAccount) {
    *available = *total = 0;  // the device exists but was not granted, so none of it is this program's
    return result;
  }
  const auto visible = book().account(account).visible(ration::Bytes{*total}, ration::Bytes{*available});
  *total = static_cast<Size>(visible.total.count());
  *available = static_cast<Size>(visible.free.count());
  Recorded::note(ration::trace::Kind::kAsked, account, visible.free.count(),
                 static_cast<std::uint64_t>(ration::trace::Asked::kFree));
  return result;
}

template <typename Size, typename Function>
CUresult device_total(Symbol symbol, Size* total, CUdevice device) noexcept {
  const CUresult result = real<Function>(symbol)(total, device);
  if (result != CUDA_SUCCESS || !governed()) return result;
  const std::uint32_t account = account_of(device);
  *total = account == kNoAccount
               ? 0
               : static_cast<Size>(book().account(account).visible_size(ration::Bytes{*total}).count());
  if (account != kNoAccount)
    Recorded::note(ration::trace::Kind::kAsked, account, *total,
                   static_cast<std::uint64_t>(ration::trace::Asked::kTotal));
  return result;
}

}  // namespace

RATION_HOOK CUresult cuMemGetInfo_v2(std::size_t* available, std::size_t* total) {
  return memory_info<std::size_t, cuMemGetInfo_v2_t>(Symbol::cuMemGetInfo_v2, available, total);
}
RATION_HOOK CUresult cuMemGetInfo(unsigned int* available, unsigned int* total) {
  return memory_info<unsigned int, cuMemGetInfo_t>(Symbol::cuMemGetInfo, available, total);
}
RATION_HOOK CUresult cuDeviceTotalMem_v2(std::size_t* total, CUdevice device) {
  return device_total<std::size_t, cuDeviceTotalMem_v2_t>(Symbol::cuDeviceTotalMem_v2, total, device);
}
RATION_HOOK CUresult cuDeviceTotalMem(unsigned int* total, CUdevice device) {
  return device_total<unsigned int, cuDeviceTotalMem_t>(Symbol::cuDeviceTotalMem, total, device);
}
