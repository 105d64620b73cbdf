// Records of a workload's processes: requests that were denied, unlisted functions that they called, and programs
// started by them that start others elsewhere. Used by the guard. A view of a book, by value; if the book is not open
// it records nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.hpp"
#include "book/denial_reason.hpp"
#include "book/open_book.hpp"
#include "book/terms.hpp"

namespace ration::book {

/// The prefix of a launcher's note, which stands among the names of unlisted functions; none of those has a space.
inline constexpr char kStarted[] = "started ";

class Denials {
 public:
  explicit Denials(const OpenBook& book) noexcept : book_(&book) {}

  struct Amount {
    Bytes used, limit;
  };
  /// Records a denied charge and returns its number (`d-RUN-NUMBER`). `device` is needed only if no account says which
  /// it was. `instead` has the figures of what was in the way if that is not the account.
  std::uint64_t record(std::uint32_t account, Bytes requested, DenialReason reason, const char* function,
                       std::uint64_t device_free, std::uint64_t waited_ns, const DeviceUuid& device = {},
                       const std::optional<Amount>& instead = {}) const noexcept;
  /// Returns the number of denied charges so far.
  [[nodiscard]] std::uint64_t count() const noexcept;

  /// Records that this process called a function of the driver that no table lists and that may concern memory.
  void note_unlisted(const char* name) const noexcept;

  /// Records that this process starts a program that has others started elsewhere, by a process without a guard.
  void note_launcher(const char* name) const noexcept;

 private:
  const OpenBook* book_;
};

}  // namespace ration::book
