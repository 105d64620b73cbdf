// The book of one workload: how many bytes of each device it may hold, holds, and was denied. Used by the guard
// (charges), the command line and the node daemon (limits, reading).
//
// Promises, each with a test of that name in tests/unit/book:
//   1. used <= limit at every instant, for any number of threads and processes, as long as the limit is not lowered
//      below what is used; no charge is denied while enough bytes are free. When a process gives up memory that other
//      processes keep, this memory is charged twice for an instant; at no instant is it uncharged.
//   2. After a process was killed at any instruction, none of its bytes stays charged once the process has been reaped,
//      whatever pid namespace it lived in.
//   3. Another process may change the limit at any time; the next charge sees the change. If the new limit is below
//      `used`, no memory is taken away and none is granted.
//   4. A corrupted, truncated or foreign file is rejected; it never crashes the process that opens it.
//   5. An uncontended charge and refund cost about sixteen nanoseconds, whatever the number of processes
//      (docs/benchmarks.md).
//   6. No process can delay another's charge: charges take no lock that a stopped, debugged or killed process could
//      hold.
//   7. Memory that several processes of the workload hold, or may come to hold by a descriptor, is charged once, until
//      the last process has let go of the memory.
// Nothing here throws or prints; nothing allocates except where std::string or std::vector stand in the signature.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.hpp"
#include "book/account.hpp"
#include "book/book_status.hpp"
#include "book/denials.hpp"
#include "book/new_book.hpp"
#include "book/open_book.hpp"
#include "book/processes.hpp"
#include "book/shared_memory.hpp"
#include "book/snapshot.hpp"
#include "book/terms.hpp"
#include "book/waiting.hpp"

namespace ration::book {

/// The endings of the file names of a book and of an unfinished book.
inline constexpr const char* kBookEnding = ".book";
inline constexpr const char* kUnfinished = ".new";

/// A book mapped into this process. It is thread-safe after open() and cannot be copied; it may be moved only during
/// set-up. Its parts are views that change the shared file, so even a constant Book provides them.
class Book {
 public:
  /// Makes a new file at `path` (mode 0600, must not exist) and reserves its space, so that no later write can fail.
  /// The file appears complete or not at all.
  static BookStatus create(const char* path, const NewBook& contents) noexcept;

  /// Maps an existing book for charging and changing. Checks every field that is used later.
  static BookStatus open(const char* path, Book& out) noexcept;

  /// Copies a book once, as BookReader does.
  static BookStatus read(const char* path, BookSnapshot& out);

  [[nodiscard]] bool is_open() const noexcept { return opened_.layout != nullptr; }

  /// The choices of the book's creator for the whole workload.
  struct Settings {
    OnDeny on_deny;
    std::uint64_t wait_ns;
    AccountMode account_mode;
    ManagedPolicy managed;
  };
  [[nodiscard]] Settings settings() const noexcept;
  [[nodiscard]] std::string_view name() const noexcept;
  /// Returns the program's command line, cut off after 255 bytes.
  [[nodiscard]] std::string_view command() const noexcept;

  [[nodiscard]] std::uint32_t account_count() const noexcept { return opened_.account_count; }
  /// Returns the index of the device's account, or account_count() if the workload was not given that device.
  [[nodiscard]] std::uint32_t find_account(const DeviceUuid& device) const noexcept;
  [[nodiscard]] Account account(std::uint32_t index) const noexcept { return {opened_, index}; }
  /// Returns true if the book has the account kHostAccount, which older books of this format lack.
  [[nodiscard]] bool counts_host() const noexcept { return opened_.counts_host; }

  /// Calls `charges` after every change of an account by this process, and `deaths` before it refunds what an ended
  /// process held; null ends the calls.
  void listen(ChargeListener charges, DeathListener deaths) noexcept { opened_.listen(charges, deaths); }

  [[nodiscard]] Processes processes() noexcept { return Processes(opened_); }
  [[nodiscard]] SharedMemory shared_memory() const noexcept { return SharedMemory(opened_); }
  [[nodiscard]] Waiting waiting() const noexcept { return Waiting(opened_); }
  [[nodiscard]] Denials denials() const noexcept { return Denials(opened_); }

  /// Returns how often a limit was set from outside.
  [[nodiscard]] std::uint64_t limit_changes() const noexcept;
  /// Returns how often the daemon has asked for unused memory.
  [[nodiscard]] std::uint64_t trim_requests() const noexcept;
  void mark_ended(std::int32_t exit_status) noexcept;

 private:
  OpenBook opened_;
};

}  // namespace ration::book
