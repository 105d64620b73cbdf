// One device of a workload: what its processes take of it, and how much they may. Used by the shim (charges), the
// library and whoever sets limits. A view of a book, by value: the changes are the book's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/bytes.hpp"
#include "ledger/open_book.hpp"
#include "ledger/terms.hpp"

namespace ration::ledger {

enum class Charged : std::uint32_t {
  kGranted,
  kOverLimit,
  kNoAccount,  ///< the workload was not given this device
  kBehind,     ///< others wait for memory of the account, and it is their turn
  kBroken,     ///< this process has no slot, or one of its own threads does not come out of a change
};

class Account {
 public:
  /// Of an index that the book does not have nothing is charged or set, and all that is asked is zero.
  Account(const OpenBook& book, std::uint32_t index) noexcept : book_(&book), index_(index) {}

  /// Enters `size` bytes for this process if they fit under the limit and no thread that came earlier waits for them
  /// (Line). Never waits for memory. Where they are a new
  /// peak, `raised_from` is what the peak was before; else it stays as it is.
  [[nodiscard]] Charged charge(Bytes size, Kind kind = Kind::kHeap, Bytes* raised_from = nullptr) const noexcept {
    return charge_in(*book_, index_, size, kind, raised_from);
  }
  /// Takes bytes off again; never more than this process holds.
  void refund(Bytes size, Kind kind = Kind::kHeap) const noexcept { refund_in(*book_, index_, size, kind); }
  /// Takes a charge off again that the device did not honour: what was never held is not a peak. `raised_from`: as
  /// charge() said, kUnlimited where it said nothing. Of several at once the peak may stay too high, never too low.
  void undo(Bytes size, Kind kind, Bytes raised_from) const noexcept;
  /// Enters bytes that the device has already given and nothing can take back (a context's growth): past the limit too.
  void charge_unconditionally(Bytes size, Kind kind) const noexcept;

  /// What living processes are charged. Gives back first what ended ones were, and shared memory that nobody holds.
  [[nodiscard]] Bytes used() const noexcept;
  [[nodiscard]] Bytes peak() const noexcept;  ///< most that was ever in use
  /// What the driver holds for the workload beyond its charges, as a daemon found: loaded code, the local memory of
  /// kernels, contexts that no hook saw. The limit binds both together. 0 where no daemon runs.
  [[nodiscard]] Bytes unrequested() const noexcept;
  [[nodiscard]] Bytes held_by_this_process() const noexcept;
  /// Bytes that the account may still take, at this instant. Another thread may take them first: decide with charge().
  [[nodiscard]] Bytes headroom() const noexcept;

  /// The limit that outsiders granted. The limit in force may be lower, for others' sake.
  [[nodiscard]] Bytes granted() const noexcept;
  /// Size of a device of `device_total` as programs of the workload see it: the limit that was granted, or a lower one
  /// that the workload set for itself, whatever limit is in force.
  [[nodiscard]] Bytes told_size(Bytes device_total) const noexcept;
  /// The device as programs of the workload see it. `free` can be taken now, by the limit in force or one that the
  /// daemon raises at once. `used` + `free` is at most `total`; the rest is what others hold or are promised.
  struct Told {
    Bytes total, free, used;
  };
  /// `device_total`, `device_free`: what the driver says of the device itself.
  [[nodiscard]] Told told(Bytes device_total, Bytes device_free) const noexcept;

  struct Limits {
    Bytes given;  ///< what outsiders set
    Bytes own;    ///< what the workload set for itself; kUnlimited: nothing
    /// What binds: the lower of the two.
    [[nodiscard]] Bytes binding() const noexcept { return std::min(given, own); }
  };
  [[nodiscard]] Limits limits() const noexcept;
  /// What a daemon may raise the limit to when somebody waits for it; never below the limit.
  [[nodiscard]] Bytes ceiling() const noexcept;
  void set_limit(Bytes limit) const noexcept;
  /// What a program of the workload sets for the workload itself: it holds beside the limit that outsiders set, and the
  /// lower of the two binds. kUnlimited takes it away.
  void set_own_limit(Bytes limit) const noexcept;

  /// What was known of the device when the book was made.
  struct Device {
    DeviceUuid uuid{};
    Bytes total;
    Bytes context_estimate;  ///< what one CUDA context is known to cost on it; 0 = not measured yet
  };
  [[nodiscard]] Device device() const noexcept;

 private:
  // The hot path, with everything in registers.
  static Charged charge_in(const OpenBook& book, std::uint32_t index, Bytes size, Kind kind,
                           Bytes* raised_from) noexcept;
  static void refund_in(const OpenBook& book, std::uint32_t index, Bytes size, Kind kind) noexcept;
  [[nodiscard]] bool exists() const noexcept { return index_ < book_->account_count; }

  const OpenBook* book_;
  std::uint32_t index_;
};

}  // namespace ration::ledger
