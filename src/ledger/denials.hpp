// What a workload's processes were denied, what they called that ration does not know, and what they started that
// starts others elsewhere. Used by the shim. A view of
// a book, by value; of one that is not open it records nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.hpp"
#include "ledger/open_book.hpp"
#include "ledger/terms.hpp"

namespace ration::ledger {

/// How the note of a launcher begins: it stands among the names of unlisted functions, none of which has a space.
inline constexpr char kStarted[] = "started ";

class Denials {
 public:
  explicit Denials(const OpenBook& book) noexcept : book_(&book) {}

  struct Amount {
    Bytes used, limit;
  };
  /// Records a denied charge and returns its number (`d-RUN-NUMBER`). `device`: where no account says which it was.
  /// `instead`: of what was in the way, where that is not the account.
  std::uint64_t record(std::uint32_t account, Bytes requested, DenialReason reason, const char* function,
                       std::uint64_t device_free, std::uint64_t waited_ns, const DeviceUuid& device = {},
                       const std::optional<Amount>& instead = {}) const noexcept;
  /// Denied charges so far.
  [[nodiscard]] std::uint64_t count() const noexcept;

  /// This process called a function of the driver that no table lists and that may concern memory.
  void note_unlisted(const char* name) const noexcept;

  /// This process starts a program that has others started elsewhere, by somebody who has no guard.
  void note_launcher(const char* name) const noexcept;

 private:
  const OpenBook* book_;
};

}  // namespace ration::ledger
