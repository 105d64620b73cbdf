// Contexts: their own overhead is charged (it is held on the device like everything else), and when one is destroyed or
// a primary context reset, everything that lived in it comes off the book.
#include <algorithm>

#include "shim/hooks/governor.hpp"
#include "shim/hooks/graphs.hpp"
#include "shim/hooks/hooks.hpp"
#include "shim/hooks/measure.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {
namespace {

using namespace cuda;

struct Context {
  std::uint64_t overhead = 0;
  std::uint32_t account = kNoAccount;
  std::uint32_t attached = 0;  // by cuCtxAttach(), beyond its making
  CUdevice device = -1;
  bool primary = false;
};

Table<Context> contexts;

bool counts_contexts() noexcept { return book().account_mode() == ledger::AccountMode::kDevice; }

/// `call` makes a context on `device`. Entered beforehand with what one is known to cost, corrected by measurement.
template <typename Call, typename Undo>
CUresult take_context(CUdevice device, const char* function, CUcontext* out, bool primary, Call&& call,
                      Undo&& undo) noexcept {
  if (!book_usable()) return CUDA_ERROR_OPERATING_SYSTEM;
  const InFlight moving;
  const std::uint32_t account = account_of(device);
  // Not a device of this workload: nothing may be taken there, a context neither.
  if (account == kNoAccount && !admit(account, kGranule, Kind::kContext, function)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!counts_contexts()) return call();
  // Where `ration run` has measured what a context costs, that is entered; else it is measured here, which takes
  // loading the management library in every process.
  const Bytes estimate = book().context_estimate(account);
  if (estimate > Bytes{0} && !admit(account, estimate, Kind::kContext, function)) return CUDA_ERROR_OUT_OF_MEMORY;
  Bytes before;
  const bool measurable = estimate == Bytes{0} && bytes_by_driver(device, before);
  CUresult result = call();
  if (result != CUDA_SUCCESS) {
    give_back(account, estimate, Kind::kContext);
    return result;
  }
  Bytes after;
  Bytes cost = estimate;
  // No more than before: the driver does not know this process by the number it has here (a container).
  if (measurable && bytes_by_driver(device, after) && after > before) cost = after - before;
  const bool fits = cost <= estimate || admit(account, cost - estimate, Kind::kContext, function);
  if (!fits) {
    undo();
    give_back(account, estimate, Kind::kContext);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (cost < estimate) give_back(account, estimate - cost, Kind::kContext);
  contexts.update(reinterpret_cast<std::uint64_t>(*out), [&](Context& context) {
    context.overhead += cost.count();
    context.account = account;
    context.device = device;
    context.primary = primary;
    return true;
  });
  return result;
}

void context_is_gone(CUcontext context) noexcept {
  forget_places();
  blocks_of_context_are_gone(context);
  arrays_of_context_are_gone(context);
  Context entry;
  if (contexts.take(reinterpret_cast<std::uint64_t>(context), entry)) {
    give_back(entry.account, Bytes{entry.overhead}, Kind::kContext);
  }
  refresh_pools();
  refresh_graph_pools();
}

CUcontext primary_of(CUdevice device) noexcept {
  CUcontext found = nullptr;
  contexts.each([&](std::uint64_t key, const Context& context) {
    if (context.primary && context.device == device) found = reinterpret_cast<CUcontext>(key);
  });
  return found;
}

bool primary_is_active(CUdevice device) noexcept {
  unsigned int flags = 0;
  int active = 0;
  return real<cuDevicePrimaryCtxGetState_t>(Symbol::cuDevicePrimaryCtxGetState)(device, &flags, &active) ==
             CUDA_SUCCESS &&
         active != 0;
}

template <typename Call>
CUresult create(CUdevice device, const char* function, CUcontext* out, Call&& call) noexcept {
  if (!governed() || out == nullptr) return call();
  return take_context(device, function, out, false, call,
                      [&] { real<cuCtxDestroy_v2_t>(Symbol::cuCtxDestroy_v2)(*out); });
}

/// After a primary context was released or reset: if it is gone, so is all that lived in it.
CUresult primary_left(CUdevice device, CUresult result) noexcept {
  if (result != CUDA_SUCCESS || !governed() || primary_is_active(device)) return result;
  if (const CUcontext context = primary_of(device); context != nullptr) context_is_gone(context);
  return result;
}

CUresult destroy(Symbol symbol, CUcontext context) noexcept {
  const CUresult result = real<cuCtxDestroy_v2_t>(symbol)(context);
  if (result == CUDA_SUCCESS && governed()) context_is_gone(context);
  return result;
}

}  // namespace

void abandon_contexts() noexcept { contexts.abandon(); }

}  // namespace ration::shim

using namespace ration::shim;
using namespace ration::cuda;

RATION_HOOK CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  auto* call_real = real<cuDevicePrimaryCtxRetain_t>(Symbol::cuDevicePrimaryCtxRetain);
  if (!governed() || out == nullptr || primary_of(device) != nullptr) return call_real(out, device);
  return take_context(
      device, "cuDevicePrimaryCtxRetain", out, true, [&] { return call_real(out, device); },
      [&] { real<cuDevicePrimaryCtxRelease_v2_t>(Symbol::cuDevicePrimaryCtxRelease_v2)(device); });
}

RATION_HOOK CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return primary_left(device, real<cuDevicePrimaryCtxRelease_v2_t>(Symbol::cuDevicePrimaryCtxRelease)(device));
}
RATION_HOOK CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return primary_left(device, real<cuDevicePrimaryCtxRelease_v2_t>(Symbol::cuDevicePrimaryCtxRelease_v2)(device));
}
RATION_HOOK CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return primary_left(device, real<cuDevicePrimaryCtxReset_v2_t>(Symbol::cuDevicePrimaryCtxReset)(device));
}
RATION_HOOK CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return primary_left(device, real<cuDevicePrimaryCtxReset_v2_t>(Symbol::cuDevicePrimaryCtxReset_v2)(device));
}

RATION_HOOK CUresult cuCtxCreate(CUcontext* out, unsigned int flags, CUdevice device) {
  return create(device, "cuCtxCreate", out,
                [&] { return real<cuCtxCreate_v2_t>(Symbol::cuCtxCreate)(out, flags, device); });
}
RATION_HOOK CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  return create(device, "cuCtxCreate", out,
                [&] { return real<cuCtxCreate_v2_t>(Symbol::cuCtxCreate_v2)(out, flags, device); });
}
RATION_HOOK CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* affinity, int count, unsigned int flags,
                                    CUdevice device) {
  return create(device, "cuCtxCreate", out,
                [&] { return real<cuCtxCreate_v3_t>(Symbol::cuCtxCreate_v3)(out, affinity, count, flags, device); });
}
RATION_HOOK CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* parameters, unsigned int flags,
                                    CUdevice device) {
  return create(device, "cuCtxCreate", out,
                [&] { return real<cuCtxCreate_v4_t>(Symbol::cuCtxCreate_v4)(out, parameters, flags, device); });
}

RATION_HOOK CUresult cuCtxDestroy(CUcontext context) { return destroy(Symbol::cuCtxDestroy, context); }
RATION_HOOK CUresult cuCtxDestroy_v2(CUcontext context) { return destroy(Symbol::cuCtxDestroy_v2, context); }

RATION_HOOK CUresult cuCtxAttach(CUcontext* out, unsigned int flags) {
  const CUresult result = real<cuCtxAttach_t>(Symbol::cuCtxAttach)(out, flags);
  if (result != CUDA_SUCCESS || !governed() || out == nullptr) return result;
  contexts.update(reinterpret_cast<std::uint64_t>(*out), [](Context& context) {
    ++context.attached;
    return context.account != kNoAccount;
  });
  return result;
}

// The last detach of a context that cuCtxCreate() made destroys it.
RATION_HOOK CUresult cuCtxDetach(CUcontext context) {
  const CUresult result = real<cuCtxDestroy_v2_t>(Symbol::cuCtxDetach)(context);
  if (result != CUDA_SUCCESS || !governed()) return result;
  bool last = false;
  contexts.update(reinterpret_cast<std::uint64_t>(context), [&](Context& entry) {
    last = !entry.primary && entry.attached == 0;
    if (entry.attached > 0) --entry.attached;
    return entry.account != kNoAccount;
  });
  if (last) context_is_gone(context);
  return result;
}
