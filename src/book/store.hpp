// The folder of this user's books: one file per workload; ended ones are kept for `ration why`. Used by the command
// line. Promises: no other user's folder is used; a run that failed to start leaves nothing behind.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"
#include "book/book.hpp"

namespace ration::book {

struct StoredBook {
  std::string path;
  BookSnapshot contents;
  bool live = false;  ///< true if its `ration run`, its container or one of its processes still runs
};

/// A book whose layout differs from this ration's: the fields that every layout has.
struct ForeignBook {
  std::string path;
  std::string name;  ///< the workload's name, from the file name
  std::uint32_t format = 0;
  ProcessIdentity creator;
  std::string program;  ///< the `ration` that made it; empty if that process has ended or is hidden from this user
  bool live = false;    ///< true if that `ration` still runs
};

class Store {
 public:
  /// Opens `RATION_RUNTIME_DIR` if it is set. Otherwise opens the first of these that can be used: /run/ration,
  /// $XDG_RUNTIME_DIR/ration, and /tmp/ration-UID (/tmp/ration-UID.XXXXXX if another user owns that folder). Makes the
  /// folder if it is missing.
  static Result<Store> open();
  /// Makes that folder, and the one for the books in it, if they are missing. Fails with E1405 if the folder cannot be
  /// used.
  [[nodiscard]] static Result<void> make(const std::string& folder);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// Returns the path of a book. The run number keeps the books of two runs with the same name apart.
  [[nodiscard]] std::string path_of(const std::string& name, std::uint64_t run) const {
    return folder_ + "/books/" + name + "." + std::to_string(run) + kBookEnding;
  }
  /// Returns a lock that is held while the descriptor is open, so that one command at a time checks promises and takes
  /// names.
  [[nodiscard]] FileDescriptor lock() const;
  /// Takes the lock like lock(), but returns nothing if another process holds it.
  [[nodiscard]] FileDescriptor try_lock() const;
  /// Returns the next run number, unique within this folder.
  [[nodiscard]] Result<std::uint64_t> next_run() const;
  /// Returns every sound book and every damaged book of a container, the newest run last. Removes the books of ended
  /// workloads except the newest 32.
  [[nodiscard]] std::vector<StoredBook> list() const;
  /// Returns the simulated nodes of all books here, including ended ones. It reads only the beginnings of the files, so
  /// it is far faster than list().
  [[nodiscard]] std::set<std::string> simulations() const;
  /// Returns the books that another version of ration wrote.
  [[nodiscard]] std::vector<ForeignBook> of_other_versions() const;
  /// Returns the other files here that cannot be read as a book, each with the reason.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> damaged() const;

 private:
  std::string folder_;
};

}  // namespace ration::book
