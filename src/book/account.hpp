// One device of a workload, or pinned host memory (kHostAccount): what its processes hold of it, and how much they may.
// Used by the guard (charges), the library, and commands that set limits. Account is a view of a book and is passed by
// value; changes go to the book.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/bytes.hpp"
#include "book/open_book.hpp"
#include "book/terms.hpp"

namespace ration::book {

enum class Charged : std::uint32_t {
  kGranted,
  kOverLimit,
  kNoAccount,  ///< the workload was not given this device, or its book does not count host memory
  kBehind,     ///< earlier threads wait for memory of the account, and it is their turn
  kBroken,     ///< this process has no slot, or one of its own threads is stuck in a change
};

class Account {
 public:
  /// Makes the view. If the book has no account of that index, every change is ignored and every query returns zero.
  Account(const OpenBook& book, std::uint32_t index) noexcept : book_(&book), index_(index) {}

  /// Enters `size` bytes for this process if they fit under the limit and no earlier thread waits for memory of the
  /// account (Line). Never waits itself. If the charge makes a new peak, sets `raised_from` to the former peak.
  [[nodiscard]] Charged charge(Bytes size, Kind kind = Kind::kHeap, Bytes* raised_from = nullptr) const noexcept {
    return charge_in(*book_, index_, size, kind, raised_from);
  }
  /// Refunds bytes, but never more than this process holds.
  void refund(Bytes size, Kind kind = Kind::kHeap) const noexcept { refund_in(*book_, index_, size, kind); }
  /// Refunds a charge for memory that the device did not give, and lowers the peak that the charge raised.
  /// `raised_from` is the value from charge(), or kUnlimited if charge() set none. If several threads do this at once,
  /// the peak may stay too high, never too low.
  void undo(Bytes size, Kind kind, Bytes raised_from) const noexcept;
  /// Enters bytes that the device has already given and that cannot be taken back (a context's growth), even past the
  /// limit.
  void charge_unconditionally(Bytes size, Kind kind) const noexcept;

  /// Returns what living processes are charged. First refunds the charges of ended processes, and shared memory without
  /// a holder.
  [[nodiscard]] Bytes used() const noexcept;
  [[nodiscard]] Bytes peak() const noexcept;  ///< returns the most bytes ever in use
  /// Returns the bytes that the driver holds for the workload beyond its charges, as the daemon found them: loaded
  /// code, local memory of kernels, contexts that no hook saw. The limit binds the sum of these bytes and the charges.
  /// Returns 0 without a daemon.
  [[nodiscard]] Bytes unrequested() const noexcept;
  [[nodiscard]] Bytes held_by_this_process() const noexcept;
  /// Returns the bytes that the account may still take at this instant. Another thread may take them first: decide with
  /// charge().
  [[nodiscard]] Bytes headroom() const noexcept;

  /// Returns the limit that was granted from outside. The limit in force may be lower because other workloads need the
  /// room.
  [[nodiscard]] Bytes granted() const noexcept;
  /// Returns the size that programs of the workload see for a device of `device_total` bytes: the lowest of the granted
  /// limit, the limit that the workload set for itself, and `device_total`. The limit in force does not matter.
  [[nodiscard]] Bytes visible_size(Bytes device_total) const noexcept;
  /// The device as programs of the workload see it. `free` is the memory that can be taken now under the limit in
  /// force, or under a higher limit that the daemon sets at once. `used` + `free` is at most `total`; the rest of
  /// `total` is held by other workloads or promised to them.
  struct Visible {
    Bytes total, free, used;
  };
  /// Returns the figures that programs see; `device_total` and `device_free` are the driver's for the device itself.
  [[nodiscard]] Visible visible(Bytes device_total, Bytes device_free) const noexcept;

  struct Limits {
    Bytes given;  ///< the limit set from outside
    Bytes own;    ///< the limit that the workload set for itself; kUnlimited if none
    /// Returns the binding limit, which is the lower of the two.
    [[nodiscard]] Bytes binding() const noexcept { return std::min(given, own); }
  };
  [[nodiscard]] Limits limits() const noexcept;
  /// Returns the value up to which the daemon may raise the limit while a request waits; it is never below the limit.
  [[nodiscard]] Bytes ceiling() const noexcept;
  void set_limit(Bytes limit) const noexcept;
  /// Sets the workload's own limit, which a program of the workload chose; kUnlimited removes the limit. The lower of
  /// the own limit and the limit from outside binds.
  void set_own_limit(Bytes limit) const noexcept;

  /// The properties of the device when the book was made.
  struct Device {
    DeviceUuid uuid{};
    Bytes total;
    Bytes context_estimate;  ///< the cost of one CUDA context on the device; 0 if not measured yet
  };
  [[nodiscard]] Device device() const noexcept;

 private:
  // Takes or refunds bytes on the hot path, with all arguments in registers.
  static Charged charge_in(const OpenBook& book, std::uint32_t index, Bytes size, Kind kind,
                           Bytes* raised_from) noexcept;
  static void refund_in(const OpenBook& book, std::uint32_t index, Bytes size, Kind kind) noexcept;
  [[nodiscard]] bool exists() const noexcept { return book_->has(index_); }
  [[nodiscard]] bool is_device() const noexcept { return index_ < book_->account_count; }

  const OpenBook* book_;
  std::uint32_t index_;
};

}  // namespace ration::book
