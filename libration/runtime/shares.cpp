#include "runtime/shares.hpp"

#include <dlfcn.h>

#include <atomic>

#include "ration/runtime.hpp"

namespace ration::runtime {
namespace {

constexpr std::uint32_t kNoShare = ~std::uint32_t{0};

/// The functions that the guard exports, found by name.
struct Guard {
  std::uint32_t (*share)(const char*) = nullptr;
  std::uint32_t (*enter_share)(std::uint32_t) = nullptr;
  std::uint32_t (*enter_common_share)(std::uint32_t) = nullptr;
  std::uint32_t (*current_share)() = nullptr;
  void (*limit_share)(std::uint32_t, std::uint32_t, std::uint64_t) = nullptr;
  int (*charge_share)(std::uint32_t, std::uint32_t, std::uint64_t) = nullptr;
  void (*refund_share)(std::uint32_t, std::uint32_t, std::uint64_t) = nullptr;
  void (*look_at_share)(std::uint32_t, std::uint32_t, std::uint64_t (&)[3]) = nullptr;

  Guard() {
    void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    };
    find(share, "ration_shim_share");
    find(enter_share, "ration_shim_enter_share");
    find(enter_common_share, "ration_shim_enter_common_share");
    find(current_share, "ration_shim_current_share");
    find(limit_share, "ration_shim_limit_share");
    find(charge_share, "ration_shim_charge_share");
    find(refund_share, "ration_shim_refund_share");
    find(look_at_share, "ration_shim_look_at_share");
  }
};

/// Returns the guard's functions. Called only after a share was named; by then the guard is loaded or never will be.
const Guard& guard() {
  static const Guard found;
  return found;
}

std::atomic<bool> any{false};

}  // namespace

std::uint32_t share_named(const std::string& name) {
  if (guard().share == nullptr) throw ValueError("shares need a process that is under a limit of ration's");
  const std::uint32_t share = name.empty() ? 0 : guard().share(name.c_str());
  if (share == 0) throw ValueError("a share has a name of 1 to 63 bytes, and there are at most 63 of them");
  any = true;
  return share;
}

void limit_share(std::uint32_t share, std::uint32_t account, Bytes limit) {
  guard().limit_share(share, account, limit.count());
}

ShareAmounts amounts_of_share(std::uint32_t share, std::uint32_t account) {
  std::uint64_t amounts[3];
  guard().look_at_share(share, account, amounts);
  return {Bytes{amounts[0]}, Bytes{amounts[1]}, Bytes{amounts[2]}};
}

FormerShare enter_share(std::uint32_t share) { return {guard().enter_share(share), guard().enter_common_share(share)}; }

void leave_share(const FormerShare& former) {
  guard().enter_common_share(former.common);
  guard().enter_share(former.own);
}

std::uint32_t current_share() { return any.load(std::memory_order_relaxed) ? guard().current_share() : 0; }

bool charge_share(std::uint32_t share, std::uint32_t account, Bytes size) {
  return share == 0 || guard().charge_share(share, account, size.count()) != 0;
}

void refund_share(std::uint32_t share, std::uint32_t account, Bytes size) {
  if (share != 0) guard().refund_share(share, account, size.count());
}

OutsideShares::OutsideShares(bool needed) : entered_(needed) {
  if (entered_) before_ = guard().enter_share(kNoShare);
}
OutsideShares::~OutsideShares() {
  if (entered_) guard().enter_share(before_);
}

}  // namespace ration::runtime
