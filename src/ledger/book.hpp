// The book of one workload: how many bytes of each device it may hold, holds, and was denied.
// Used by the shim (charges), the command line and the node daemon (limits, reading).
//
// Promises, each with a test of that name in tests/unit/ledger:
//   1. used <= limit at every instant, for any number of threads and processes, as long as the limit is not lowered
//      below what is used; and no charge is denied while the bytes are there. (Memory that its process gives up and
//      others keep is charged twice for an instant, rather than to nobody.)
//   2. Of a process killed at any instruction not one byte stays charged once it has been reaped, whatever pid
//   namespace
//      it lived in.
//   3. The limit can be changed by an outsider at any time; the next charge sees it. Below `used`, nothing is taken
//      away and nothing new is granted.
//   4. A corrupted, truncated or foreign file is rejected; it never crashes whoever opens it.
//   5. An uncontended charge and refund cost about sixteen nanoseconds, whatever the number of processes
//      (docs/benchmarks.md).
//   6. No process can delay another's charge: there is no lock between them, so none that a stopped, debugged or killed
//      process could hold.
//   7. Memory that several processes of the workload hold, or may come to hold by a descriptor, is charged once, until
//      the last of them has let go of it.
// Nothing here throws or prints; nothing allocates except where std::string or std::vector stand in the signature.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.hpp"
#include "ledger/account.hpp"
#include "ledger/book_status.hpp"
#include "ledger/denials.hpp"
#include "ledger/new_book.hpp"
#include "ledger/open_book.hpp"
#include "ledger/processes.hpp"
#include "ledger/shared_memory.hpp"
#include "ledger/snapshot.hpp"
#include "ledger/terms.hpp"
#include "ledger/waiting.hpp"

namespace ration::ledger {

/// How the name of a file ends that is a book, and how that of one that is still being made.
inline constexpr const char* kBookEnding = ".book";
inline constexpr const char* kUnfinished = ".new";

/// A book mapped into this process. Thread-safe after open(). Not copyable; moving is for setting up only. Its parts
/// are views: what they change is the file, for all who have it open, so a constant Book has them too.
class Book {
 public:
  /// Makes a new file at `path` (mode 0600, must not exist), its space reserved so that no later write can fail. It is
  /// there whole or not at all.
  static BookStatus create(const char* path, const NewBook& contents) noexcept;

  /// Maps an existing book for charging and changing. Checks every field that is used later.
  static BookStatus open(const char* path, Book& out) noexcept;

  /// Copies a book once, as BookReader does.
  static BookStatus read(const char* path, BookSnapshot& out);

  [[nodiscard]] bool is_open() const noexcept { return opened_.layout != nullptr; }

  /// What its creator decided for the whole workload.
  struct Settings {
    OnDeny on_deny;
    std::uint64_t wait_ns;
    AccountMode account_mode;
    ManagedPolicy managed;
  };
  [[nodiscard]] Settings settings() const noexcept;
  [[nodiscard]] std::string name() const;

  [[nodiscard]] std::uint32_t account_count() const noexcept { return opened_.account_count; }
  /// Index of the device's account, or account_count() if the workload was not given that device.
  [[nodiscard]] std::uint32_t find_account(const DeviceUuid& device) const noexcept;
  [[nodiscard]] Account account(std::uint32_t index) const noexcept { return {opened_, index}; }

  [[nodiscard]] Processes processes() noexcept { return Processes(opened_); }
  [[nodiscard]] SharedMemory shared_memory() const noexcept { return SharedMemory(opened_); }
  [[nodiscard]] Waiting waiting() const noexcept { return Waiting(opened_); }
  [[nodiscard]] Denials denials() const noexcept { return Denials(opened_); }

  /// How often an outsider asked for what is not used.
  [[nodiscard]] std::uint64_t trim_requests() const noexcept;
  void mark_ended(std::int32_t exit_status) noexcept;

 private:
  OpenBook opened_;
};

}  // namespace ration::ledger
