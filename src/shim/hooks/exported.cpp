#include "shim/hooks/exported.hpp"

#include <algorithm>
#include <atomic>

#include "shim/hooks/hooks.hpp"
#include "shim/hooks/measure.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {
namespace {

constexpr std::uint32_t kMaxAccounts = 64;
constexpr int kKinds = 3;

std::atomic<bool> any_exported{false};
std::atomic<int> in_flight{0};
std::atomic<std::uint64_t> started{0};  // InFlights so far
thread_local int own_in_flight = 0;

/// What lingers of one account, by kind; and by how much the book exceeds the driver's count while nothing lingers.
struct Lingering {
  Bytes bytes[kKinds];
  std::int64_t offset = 0;
  bool measured = false;  // false: the driver does not tell, so there is no proof

  [[nodiscard]] Bytes total() const noexcept { return bytes[0] + bytes[1] + bytes[2]; }
};
Lingering lingering[kMaxAccounts];
SpinLock changing;
std::atomic<bool> any_lingering{false};

bool device_of(std::uint32_t account, cuda::CUdevice& out) noexcept {
  int count = 0;
  if (real<cuda::cuDeviceGetCount_t>(Symbol::cuDeviceGetCount)(&count) != cuda::CUDA_SUCCESS) return false;
  for (out = 0; out < count; ++out) {
    if (account_of(out) == account) return true;
  }
  return false;
}

/// The book's bytes of this process less the driver's, both of one moment. False: not known, or too much going on.
bool difference(std::uint32_t account, std::int64_t& out) noexcept {
  cuda::CUdevice device = -1;
  if (!device_of(account, device)) return false;
  for (int attempt = 0; attempt < 4; ++attempt) {
    const std::uint64_t before = started.load();
    const Bytes held = book().held_by_this_process(account);
    Bytes driver_count;
    if (in_flight.load() != 0) continue;
    if (!bytes_by_driver(device, driver_count)) return false;
    if (in_flight.load() != 0 || started.load() != before || book().held_by_this_process(account) != held) continue;
    out = static_cast<std::int64_t>(held.count()) - static_cast<std::int64_t>(driver_count.count());
    return true;
  }
  return false;
}

}  // namespace

InFlight::InFlight() noexcept : counted_(any_exported.load(std::memory_order_relaxed)) {
  if (!counted_) return;
  in_flight.fetch_add(1);
  started.fetch_add(1);
  ++own_in_flight;
}
InFlight::~InFlight() {
  if (!counted_) return;
  --own_in_flight;
  in_flight.fetch_sub(1);
}

NotInFlight::NotInFlight() noexcept : own_(own_in_flight) { in_flight.fetch_sub(own_); }
NotInFlight::~NotInFlight() { in_flight.fetch_add(own_); }

void note_export(std::uint32_t account, Bytes size) noexcept {
  if (account >= kMaxAccounts) return;
  book().note_exported(account, size);  // before anybody can import it
  any_exported.store(true);
  const NotInFlight quiet;
  std::int64_t now = 0;
  const bool known = difference(account, now);
  const SpinGuard guard(changing);
  Lingering& entry = lingering[account];
  if (!known || entry.total() > Bytes{0}) return;
  // The largest difference ever seen: a proof may come late, never early.
  entry.offset = entry.measured ? std::max(entry.offset, now) : now;
  entry.measured = true;
}

void linger(std::uint32_t account, Bytes size, Kind kind) noexcept {
  if (account >= kMaxAccounts || size == Bytes{0}) return;
  const SpinGuard guard(changing);
  lingering[account].bytes[static_cast<int>(kind)] += size;
  any_lingering.store(true);
}

void refresh_lingering() noexcept {
  if (!any_lingering.load(std::memory_order_acquire)) return;
  const NotInFlight quiet;
  bool left = false;
  for (std::uint32_t account = 0; account < kMaxAccounts; ++account) {
    Lingering& entry = lingering[account];
    std::int64_t now = 0;
    {
      const SpinGuard guard(changing);
      if (entry.total() == Bytes{0}) continue;
    }
    if (!entry.measured || !difference(account, now)) {
      left = true;
      continue;
    }
    // Nothing of it alive: the book exceeds the driver by all that lingers, and by what it always did.
    const std::int64_t gone = now - entry.offset;
    Bytes refund{gone > 0 ? static_cast<std::uint64_t>(gone) : 0};
    const SpinGuard guard(changing);
    for (int kind = 0; kind < kKinds; ++kind) {
      const Bytes part = std::min(refund, entry.bytes[kind]);
      if (part == Bytes{0}) continue;
      entry.bytes[kind] = entry.bytes[kind] - part;
      refund = refund - part;
      give_back(account, part, static_cast<Kind>(kind));
      book().note_unexported(account, part);
    }
    left = left || entry.total() > Bytes{0};
  }
  if (!left) {
    const SpinGuard guard(changing);
    bool none = true;
    for (const Lingering& entry : lingering) none = none && entry.total() == Bytes{0};
    if (none) any_lingering.store(false);
  }
}

void abandon_exported() noexcept {
  changing.unlock();
  in_flight.store(0);
  own_in_flight = 0;
  any_exported.store(false);
  any_lingering.store(false);
  for (Lingering& entry : lingering) entry = {};
}

}  // namespace ration::shim
