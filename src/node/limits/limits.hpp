// The numbers that the daemon owns: what each running workload was given, and what holds at this moment. Used by Node.
// Promises: they survive the daemon (a file that is replaced whole); a book that says otherwise is put right and told.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "node/books/registry.hpp"
#include "node/limits/balance.hpp"
#include "node/state/state_file.hpp"

namespace ration::node {

/// Of one workload on one device.
struct OwnedLimit {
  Bytes configured;  ///< as asked for
  Bytes effective;   ///< at most that: what holds now
  Bytes guarantee;
  std::string held_back_by;  ///< why effective < configured; empty: it is not
  LimitReason reason = LimitReason::kConfigured;
  Bytes ceiling;    ///< what it may be raised to for a charge that waits; 0: not above effective
  Bytes moved;      ///< what it held when it was suspended: what has to come back
  Bytes granted{};  ///< `configured`, or less by its tenant's, policy's or claim's limit; 0: not known yet
  Bytes reach{};    ///< what `effective` is raised to at once, if somebody waits; 0: not known yet
};

struct OwnedWorkload {
  std::uint32_t owner = 0;
  std::uint64_t run = 0;
  std::uint64_t file_number = 0;  ///< of its book: the same file, the same workload, until the next boot
  std::string tenant;             ///< who is charged
  std::uint64_t changes = 0;      ///< by people
  std::string changed_by;         ///< who did so last
  std::uint64_t changed_ns = 0;
  bool suspended = false;  ///< its memory is in host memory, or on its way there or back
  bool held = false;       ///< suspended by a person, until a person wants it back
  std::string altered;     ///< what somebody did to its book; empty: nothing. Then it counts as if it held all it may
  bool away = false;       ///< suspended, and not on its way back: its book promises nothing meanwhile
  std::vector<OwnedLimit> accounts;
};

/// A book whose owner wrote other numbers into it.
struct Alteration {
  std::string path;
  std::uint32_t account = 0;
  Bytes found, owned;
  bool is_guarantee = false;
  bool asked = false;  ///< by `ration set` while no daemon ran, of somebody who may not change it
};

class Limits {
 public:
  /// `file`: where they are kept; empty: nowhere. A corrupt file is treated as absent: the books are trusted then.
  explicit Limits(std::string file);
  /// What to tell of a damaged file; empty: it was none.
  [[nodiscard]] const std::string& lost() const { return file_.damage(); }

  /// False: known from before, also from before a restart.
  bool take_up(const Workload& workload);
  void forget(const std::string& path);

  /// Null: not taken up.
  [[nodiscard]] OwnedWorkload* find(const std::string& path);
  [[nodiscard]] const OwnedWorkload* find(const std::string& path) const;
  void changed() { dirty_ = true; }

  /// What the book says of each account since it was last right; empty: not taken up.
  [[nodiscard]] std::vector<Bytes> in_book(const std::string& path) const;

  /// Stores what is owned into the workload's book: after a change, without waiting for the next tick. E1411.
  [[nodiscard]] Result<void> write(const Workload& workload);

  /// Its book was found to be altered: from now on nothing that it says counts in its favour. False: known already.
  bool note_altered(const std::string& path, const std::string& what);

  /// The book says what `ration set` wrote while no daemon ran, and its user may not change: enforce() puts it back.
  void put_back_asked(const std::string& path) { asked_.insert(path); }

  /// Whether the book has all that is owned, as far as this daemon wrote it.
  [[nodiscard]] bool is_written(const std::string& path) const;

  /// Right after a refresh: compares every book with what is owned, puts right those that differ. Alterations are
  /// differences that nobody here made; `failed` names books that could not be written.
  [[nodiscard]] std::vector<Alteration> enforce(const Registry& registry, std::vector<std::string>& failed);

  /// Writes the file where anything changed. E1531.
  [[nodiscard]] Result<void> save();

 private:
  struct Written {
    Bytes limit, guarantee, ceiling, granted, reach;
    bool operator==(const Written&) const = default;
  };
  [[nodiscard]] static Written to_write(const OwnedWorkload& owned, const OwnedLimit& limit);

  StateFile file_;
  std::unordered_map<std::string, OwnedWorkload> owned_;           // by path of the book
  std::unordered_map<std::string, std::vector<Written>> written_;  // what the books said when they were last right
  std::set<std::string> asked_;
  bool dirty_ = false;
};

}  // namespace ration::node
