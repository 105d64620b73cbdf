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
  Message held_back_by;  ///< why `in_force` is below `configured`; empty if it is not
  LimitReason reason = LimitReason::kConfigured;
  Bytes ceiling;    ///< limit up to which a waiting request may raise `in_force`; 0 if it may not
  Bytes moved;      ///< bytes that its suspension moved to the host and that a resume needs again
  Bytes granted{};  ///< `configured`, lowered by tenant, policy or claim; 0 if not known yet
  Bytes reach{};    ///< highest `in_force` that a waiting request can get at once; 0 if not known yet
};

struct OwnedWorkload {
  std::uint32_t owner = 0;
  std::uint64_t run = 0;
  std::uint64_t file_number = 0;  ///< number of its book's file, by which a restarted daemon recognises the workload
  std::string tenant;             ///< the tenant to charge
  std::uint64_t changes = 0;      ///< changes by people
  std::string changed_by;         ///< author of the last change
  std::uint64_t changed_ns = 0;
  bool suspended = false;         ///< true while its memory is in host memory, or moving
  bool held_by_person = false;    ///< true if a person suspended it, so that only a person resumes it
  Message altered;                ///< damage to its book, so that its whole limit counts as used; empty if none
  bool guarantee_lapsed = false;  ///< true while it is suspended and not resuming: its guarantee does not count
  std::vector<OwnedLimit> accounts;
  Bytes host_configured = kUnlimited;  ///< limit of pinned host memory, as configured
  Bytes host_most = kUnlimited;        ///< limit of pinned host memory that its policy sets
  [[nodiscard]] Bytes host_in_force() const { return std::min(host_configured, host_most); }
};

/// A limit or guarantee in a book that the daemon did not write.
struct Alteration {
  std::string path;
  std::uint32_t account = 0;  ///< index of the account, or kHostAccount
  Bytes found, owned;
  OwnedNumber number = OwnedNumber::kLimit;
  bool unwatched = false;  ///< true if a user without the right wrote it with `ration set` while no daemon ran
};

class Limits {
 public:
  /// Reads the limits saved in `file`; an empty path saves nothing. A damaged file counts as absent; the limits in the
  /// books are then trusted.
  explicit Limits(std::string file);
  /// Returns a report of a damaged file; empty if it was sound.
  [[nodiscard]] const Message& damage() const { return file_.damage(); }

  /// Adds a workload. Returns false if it was known, even from before a restart.
  bool add(const Workload& workload);
  void forget(const std::string& path);

  /// Returns null for an unknown workload.
  [[nodiscard]] OwnedWorkload* find(const std::string& path);
  [[nodiscard]] const OwnedWorkload* find(const std::string& path) const;
  void changed() { dirty_ = true; }

  /// Returns the limits last written into the book, by account; empty for an unknown workload.
  [[nodiscard]] std::vector<Bytes> in_book(const std::string& path) const;

  /// Writes the limits into the workload's book at once. Fails with E1411.
  [[nodiscard]] Result<void> write(const Workload& workload);

  /// Marks the book as damaged: from now on, nothing in the book counts in its workload's favour. Returns false if the
  /// book was marked already.
  bool note_altered(const std::string& path, const Message& what);

  /// Marks the next alteration of this book as written with `ration set` while no daemon ran, by a user without the
  /// right to do so.
  void mark_unwatched(const std::string& path) { unwatched_.insert(path); }

  /// Returns true if this daemon has written the latest values into the book.
  [[nodiscard]] bool is_written(const std::string& path) const;

  /// Compares each book with the owned limits after a refresh, and corrects the book. Returns the differences that the
  /// daemon did not make. Adds a text to `failed` for each book that cannot be written.
  [[nodiscard]] std::vector<Alteration> enforce(const Registry& registry, std::vector<std::string>& failed);

  /// Saves the limits if anything changed. Fails with E1531.
  [[nodiscard]] Result<void> save();
  /// Saves as save() does. Returns a failure only if the previous call succeeded, so that a lasting failure is reported
  /// once.
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
