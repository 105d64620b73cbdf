// The file of the history: its one open database, the lock that excludes other daemons, and the new file that is begun
// if this file is damaged or was removed, or if another file was put at its path. Used by History. Promise: a file that
// cannot be used is set aside, never written to and never removed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"
#include "history/database.hpp"

namespace ration::history {

class HistoryFile {
 public:
  /// Creates or opens the file; sets a damaged one aside. Fails as History::open() does, with E1911, E1912 or E1913.
  [[nodiscard]] static Result<HistoryFile> open(const std::string& path);

  [[nodiscard]] Database& database() noexcept { return database_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// Begins a transaction, calls `write` and commits; after an error nothing is written.
  [[nodiscard]] Result<void> transaction(const std::function<void()>& write);

  /// Sets the file aside and begins a new one.
  [[nodiscard]] Result<void> begin_anew();
  /// Records that no new file could be begun. Every transaction() fails with `error` until a new file can be begun.
  void set_unusable(Error error) { unusable_ = std::move(error); }

  /// Returns true if the path still leads to the open file.
  [[nodiscard]] bool in_place() const { return left_ == Identity{} || identity().inode == left_.inode; }
  /// Returns true if another process wrote to the file since the last transaction().
  [[nodiscard]] bool was_changed() const { return left_ != Identity{} && identity() != left_; }
  /// Accepts the changes of another process.
  void accept_changes() { left_ = identity(); }
  /// Reads the whole file. Returns false if it contradicts itself or is not at its path.
  [[nodiscard]] bool is_sound() const;

  /// Returns the notices about the file since the last call, for example that it was set aside and under which name.
  [[nodiscard]] std::vector<Message> take_notices() { return std::exchange(notices_, {}); }

 private:
  /// The identity of the file after the last transaction.
  struct Identity {
    std::uint64_t inode = 0;
    std::int64_t size = 0, changed_ns = 0;
    bool operator==(const Identity&) const = default;
  };

  HistoryFile(std::string path, FileDescriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  [[nodiscard]] Result<void> open_database(bool again);
  [[nodiscard]] Identity identity() const;

  std::string path_;
  FileDescriptor lock_;
  Database database_;
  Identity left_;
  std::optional<Error> unusable_;
  std::vector<Message> notices_;
};

}  // namespace ration::history
