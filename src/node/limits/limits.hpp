// The limits that the daemon owns: those configured and those in force, of each running workload.
// Promises: they survive the daemon, in a file that is replaced as a whole; a book that differs is corrected and
// reported.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "node/books/registry.hpp"
#include "node/events/event_text.hpp"
#include "node/limits/balance.hpp"
#include "node/state/state_file.hpp"

namespace ration::node {

/// Limits of one workload on one device.
struct OwnedLimit {
  Bytes configured;  ///< as requested
  Bytes in_force;    ///< at most `configured`
  Bytes guarantee;
  Message held_back_by;  ///< why `in_force` is below `configured`; empty: it is not
  LimitReason reason = LimitReason::kConfigured;
  Bytes ceiling;    ///< limit up to which a waiting charge may rise; 0: not above `in_force`
  Bytes moved;      ///< bytes moved to the host by its suspension, which a resume needs again
  Bytes granted{};  ///< `configured`, lowered by tenant, policy or claim; 0: not known yet
  Bytes reach{};    ///< `in_force` after an immediate raise for a waiting request; 0: not known yet
};

struct OwnedWorkload {
  std::uint32_t owner = 0;
  std::uint64_t run = 0;
  std::uint64_t file_number = 0;  ///< of its book: same file and boot, same workload
  std::string tenant;             ///< the tenant to charge
  std::uint64_t changes = 0;      ///< changes by people
  std::string changed_by;         ///< author of the last change
  std::uint64_t changed_ns = 0;
  bool suspended = false;         ///< its memory is in host memory, or moving
  bool held_by_person = false;    ///< suspended by a person, and resumed only by a person
  Message altered;                ///< damage to its book, which then counts as if it held all it may; empty: none
  bool guarantee_lapsed = false;  ///< suspended and not resuming: its guarantee does not count
  std::vector<OwnedLimit> accounts;
  Bytes host_configured = kUnlimited;  ///< limit of pinned host memory, as configured
  Bytes host_most = kUnlimited;        ///< the same, by its policy
  [[nodiscard]] Bytes host_in_force() const { return std::min(host_configured, host_most); }
};

/// A limit or guarantee in a book that the daemon did not write.
struct Alteration {
  std::string path;
  std::uint32_t account = 0;  ///< or kHostAccount
  Bytes found, owned;
  OwnedNumber number = OwnedNumber::kLimit;
  bool unwatched = false;  ///< written by `ration set` while no daemon ran, by a user without the right
};

class Limits {
 public:
  /// An empty path keeps nothing. A damaged file counts as absent: the books are trusted then.
  explicit Limits(std::string file);
  /// Returns a report of a damaged file; empty: it was sound.
  [[nodiscard]] const Message& damage() const { return file_.damage(); }

  /// Adds a workload. Returns false if it was known, even from before a restart.
  bool add(const Workload& workload);
  void forget(const std::string& path);

  /// Returns null for an unknown workload.
  [[nodiscard]] OwnedWorkload* find(const std::string& path);
  [[nodiscard]] const OwnedWorkload* find(const std::string& path) const;
  void changed() { dirty_ = true; }

  /// Returns the limits last written into the book, by account; empty: unknown.
  [[nodiscard]] std::vector<Bytes> in_book(const std::string& path) const;

  /// Writes the limits into the workload's book at once. Fails with E1411.
  [[nodiscard]] Result<void> write(const Workload& workload);

  /// Marks the book as damaged: from now on, nothing in it counts in its favour. Returns false if it was marked.
  bool note_altered(const std::string& path, const Message& what);

  /// Marks the next alteration of this book as written by `ration set` while no daemon ran, without the right to do so.
  void mark_unwatched(const std::string& path) { unwatched_.insert(path); }

  /// Returns true if this daemon has written the latest values into the book.
  [[nodiscard]] bool is_written(const std::string& path) const;

  /// Compares each book with the owned limits after a refresh, and corrects it. Returns the differences that the daemon
  /// did not make; `failed` lists books that cannot be written.
  [[nodiscard]] std::vector<Alteration> enforce(const Registry& registry, std::vector<std::string>& failed);

  /// Saves the file if anything changed. Fails with E1531.
  [[nodiscard]] Result<void> save();
  /// Saves likewise. Returns a failure only if the call before succeeded, so that a lasting one is reported once.
  [[nodiscard]] std::optional<Error> save_or_tell();

 private:
  struct Written {
    Bytes limit, guarantee, ceiling, granted, reach;
    bool operator==(const Written&) const = default;
  };
  [[nodiscard]] static Written book_content(const OwnedWorkload& owned, const OwnedLimit& limit);

  StateFile file_;
  std::unordered_map<std::string, OwnedWorkload> owned_;           // by path of the book
  std::unordered_map<std::string, std::vector<Written>> written_;  // last contents of the books
  std::unordered_map<std::string, Bytes> host_written_;            // the same, of pinned host memory
  std::set<std::string> unwatched_;
  bool dirty_ = false, failure_told_ = false;
};

}  // namespace ration::node
