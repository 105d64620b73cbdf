// The records of a workload's processes in its book: denied requests, calls of unlisted functions, and launchers
// (base/launchers.inc) that they start. Used by the guard. Denials is a view of a book and is passed by value; it
// records nothing if the book is not open.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.hpp"
#include "book/denial_reason.hpp"
#include "book/open_book.hpp"
#include "book/terms.hpp"

namespace ration::book {

/// The prefix of a launcher's note. Names of unlisted functions contain no space, so the prefix distinguishes the note
/// from them.
inline constexpr char kStarted[] = "started ";

class Denials {
 public:
  explicit Denials(const OpenBook& book) noexcept : book_(&book) {}

  struct Amount {
    Bytes used, limit;
  };
  /// Records a denied charge and returns its number (`d-RUN-NUMBER`). `device` is needed only if the request has no
  /// account. `instead` has the use and the limit that led to the denial if they are not the account's.
  std::uint64_t record(std::uint32_t account, Bytes requested, DenialReason reason, const char* function,
                       std::uint64_t device_free, std::uint64_t waited_ns, const DeviceUuid& device = {},
                       const std::optional<Amount>& instead = {}) const noexcept;
  /// Returns the number of denied charges so far.
  [[nodiscard]] std::uint64_t count() const noexcept;

  /// Records that this process called an unlisted function that may concern memory.
  void note_unlisted(const char* name) const noexcept;

  /// Records that this process starts a launcher. The programs that a launcher starts run in processes without a guard.
  void note_launcher(const char* name) const noexcept;

 private:
  const OpenBook* book_;
};

}  // namespace ration::book
