#include "history/history_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/say.hpp"
#include "history/schema.hpp"
#include "history/set_aside.hpp"

namespace ration::history {
namespace {

Result<void> prepare(Database& database, const std::string& path) {
  // With NORMAL, a commit survives the daemon's death without a sync. A power cut may lose the last commits, but leaves
  // the file consistent.
  database.run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 16777216");
  RATION_TRY(database.outcome());
  return migrate(database, path);
}

Result<FileDescriptor> take_lock(const std::string& path) {
  FileDescriptor lock{::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (!lock) {
    return fail("E1912", fmt::format("the history at {} cannot be opened: {}.", path, std::strerror(errno)),
                "Give the daemon a folder of its own that it may write to.");
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail("E1913", fmt::format("another daemon writes the history at {}.", path),
                "Stop it first, or give this one a folder of its own.");
  }
  return lock;
}

/// Makes the folder of the history again if it was removed, with a new lock in it.
Result<void> make_folder_again(const std::string& path, FileDescriptor& lock) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!std::filesystem::create_directories(folder, error)) return {};
  std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  RATION_TRY(auto fresh, take_lock(path));
  lock = std::move(fresh);
  return {};
}

}  // namespace

Result<HistoryFile> HistoryFile::open(const std::string& path) {
  RATION_TRY(auto lock, take_lock(path));
  HistoryFile file(path, std::move(lock));
  RATION_TRY(file.open_database(false));
  return file;
}

Result<void> HistoryFile::open_database(bool again) {
  for (;; again = true) {
    // Makes the file with the intended rights, because SQLite would make it with other rights.
    if (const FileDescriptor file{::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)}; !file) {
      return fail("E1912", fmt::format("the history at {} cannot be opened: {}.", path_, std::strerror(errno)),
                  "Give the daemon a folder of its own that it may write to.");
    }
    RATION_TRY(auto database, Database::open(path_, Database::Access::kWrite));
    const auto prepared = prepare(database, path_);
    if (prepared) {
      // Event numbers continue above all numbers that the lost file can have given, which are fewer than one per second
      // since 1970.
      if (again) {
        Statement(database, "INSERT INTO sqlite_sequence VALUES('events', ?)")
            .with(std::int64_t{std::time(nullptr)})
            .done();
      }
      database_ = std::move(database);
      return {};
    }
    if (!database.damaged() || again) return tl::unexpected(prepared.error());
    database = Database{};
    const std::string aside = set_aside(path_);
    if (aside.empty()) return tl::unexpected(prepared.error());
    notices_.push_back(say<"history.unusable">("problem"_is(prepared.error().what), "kept"_is(aside)));
  }
}

Result<void> HistoryFile::begin_anew() {
  (void)database_.outcome();
  database_ = Database{};
  const bool removed = identity() == Identity{}, damaged = in_place();
  const std::string aside = removed ? "" : set_aside(path_);
  if (aside.empty() && !removed) {
    return fail("E1912", fmt::format("the history at {} is damaged, and the daemon cannot move it aside.", path_),
                "Check the owner and the mode of its folder: ls -ld");
  }
  RATION_TRY(make_folder_again(path_, lock_));
  RATION_TRY(open_database(true));
  left_ = {};
  unusable_.reset();
  notices_.push_back(removed   ? say<"history.removed">("file"_is(path_))
                     : damaged ? say<"history.damaged">("file"_is(path_), "kept"_is(aside))
                               : say<"history.exchanged">("file"_is(path_), "kept"_is(aside)));
  return {};
}

Result<void> HistoryFile::transaction(const std::function<void()>& write) {
  if (unusable_) return tl::unexpected(*unusable_);
  database_.run("BEGIN IMMEDIATE");
  write();
  database_.run("COMMIT");
  auto good = database_.outcome();
  if (good) {
    // Remembers the file as this transaction left it, unless the file was removed or replaced: then the data is lost,
    // and the next commit must notice the loss.
    if (in_place()) left_ = identity();
    return good;
  }
  database_.run("ROLLBACK");
  (void)database_.outcome();
  return good;
}

HistoryFile::Identity HistoryFile::identity() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return {};
  return {status.st_ino, status.st_size, status.st_ctim.tv_sec * std::int64_t{1'000'000'000} + status.st_ctim.tv_nsec};
}

bool HistoryFile::is_sound() const {
  if (identity() == Identity{} || !in_place()) return false;
  auto fresh = Database::open(path_, Database::Access::kRead);  // a second connection has no cached pages
  if (!fresh) return true;                                      // the file may be sound, only unreadable now
  bool damaged = false;
  {
    Statement asked(*fresh, "PRAGMA quick_check(1)");
    damaged = asked.row() && asked.text(0) != "ok";
  }
  (void)fresh->outcome();
  return !damaged && !fresh->damaged();
}

}  // namespace ration::history
