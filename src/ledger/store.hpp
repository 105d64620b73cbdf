// Where the books of this user stand: one folder, one file a workload, ended ones kept for `ration why`.
// Used by the command line. Promises: nobody else's folder is used; nothing is left behind by a run that failed to
// start.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"
#include "ledger/book.hpp"

namespace ration::ledger {

struct StoredBook {
  std::string path;
  BookSnapshot contents;
  bool live = false;  ///< its `ration run`, its container or one of its processes still runs
};

/// A book of another layout than this ration's, as far as every layout tells.
struct ForeignBook {
  std::string path;
  std::string name;  ///< of the workload, by that of the file
  std::uint32_t format = 0;
  ProcessIdentity creator;
  std::string program;  ///< the `ration` that made it; empty: it has ended, or this user may not know
  bool live = false;    ///< that `ration` still runs
};

class Store {
 public:
  /// `RATION_RUNTIME_DIR`, else /run/ration where it is writable, else $XDG_RUNTIME_DIR/ration, else /tmp/ration-UID,
  /// or /tmp/ration-UID.XXXXXX where somebody else has that. Made where it is not there.
  static Result<Store> open();
  /// That folder, and the one for the books in it, where they are not there. E1405: it cannot be used.
  [[nodiscard]] static Result<void> make(const std::string& folder);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// The run's number keeps the books of two runs of one name apart.
  [[nodiscard]] std::string path_of(const std::string& name, std::uint64_t run) const {
    return folder_ + "/books/" + name + "." + std::to_string(run) + kBookEnding;
  }
  /// Held while it lives: promises are checked and names taken by one command at a time.
  [[nodiscard]] FileDescriptor lock() const;
  /// The same, or nothing where somebody else holds it.
  [[nodiscard]] FileDescriptor try_lock() const;
  /// Next run number: unique within this folder.
  [[nodiscard]] Result<std::uint64_t> next_run() const;
  /// Every sound book, the newest run last, and of containers also those that are not; ended ones beyond the newest 32
  /// are removed.
  [[nodiscard]] std::vector<StoredBook> list() const;
  /// The simulated nodes that books here are of, ended ones too: far quicker than list(), as it reads the beginnings
  /// alone.
  [[nodiscard]] std::set<std::string> simulations() const;
  /// Books that another version of ration wrote.
  [[nodiscard]] std::vector<ForeignBook> of_other_versions() const;
  /// Other files among the books that cannot be read as one, with the reason.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> damaged() const;

 private:
  std::string folder_;
};

}  // namespace ration::ledger
