#include "ledger/store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace ration::ledger {
namespace {

constexpr std::size_t kEndedKept = 32;

/// The folder of the machine's daemon. Everybody finds its socket there; the books in it are root's.
constexpr const char* kMachineFolder = "/run/ration";

/// Makes the folder where it is not there. Empty: it can be used; else why not. What somebody else put there is left
/// alone: who owns a folder can exchange every file in it.
std::string unusable(const std::string& folder, mode_t mode) {
  const bool made = ::mkdir(folder.c_str(), mode) == 0;
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return fmt::format("cannot be made: {}", std::strerror(errno));
  if (S_ISLNK(status.st_mode)) return "is a symbolic link";
  if (!S_ISDIR(status.st_mode)) return "is no folder";
  if (status.st_uid != ::getuid()) return fmt::format("belongs to uid {}", status.st_uid);
  // Whatever the umask is, and whoever made it.
  if ((made || folder == kMachineFolder) && (status.st_mode & mode) != mode) ::chmod(folder.c_str(), mode);
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? "" : "cannot be written";
}

std::string unusable_for_books(const std::string& folder) {
  const mode_t mode = ::getuid() == 0 ? 0755 : 0700;
  std::string why = unusable(folder, mode);
  return why.empty() ? unusable(folder + "/books", 0700) : why;
}

/// This user's own one of the folders `/tmp/ration-UID.XXXXXX`; empty: there is none.
std::string unguessable_folder() {
  const std::string prefix = fmt::format("ration-{}.", ::getuid());
  std::string found;
  std::error_code error;
  for (std::filesystem::directory_iterator each("/tmp", error), end; !error && each != end; each.increment(error)) {
    struct stat status {};
    if (each->path().filename().string().rfind(prefix, 0) != 0 || ::lstat(each->path().c_str(), &status) != 0 ||
        !S_ISDIR(status.st_mode) || status.st_uid != ::getuid())
      continue;
    if (found.empty() || each->path() < found) found = each->path();
  }
  return found;
}

/// Where nothing else is left. A name that everybody can guess somebody else can take first.
std::string folder_in_tmp() {
  if (std::string found = unguessable_folder(); !found.empty()) return found;
  std::string folder = fmt::format("/tmp/ration-{}", ::getuid());
  if (unusable(folder, 0700).empty()) return folder;
  std::string pattern = folder + ".XXXXXX";
  return ::mkdtemp(pattern.data()) == nullptr ? folder : pattern;
}

bool is_live(const BookSnapshot& book) {
  if (book.ended_ns == 0 && liveness(book.creator) != Liveness::kDead) return true;
  return std::any_of(book.processes.begin(), book.processes.end(),
                     [](const ProcessSnapshot& process) { return liveness(process.identity) != Liveness::kDead; });
}

}  // namespace

Result<Store> Store::open() {
  Store store;
  std::string why;
  const auto is_usable = [&](std::string folder) {
    why = unusable_for_books(folder);
    store.folder_ = std::move(folder);
    return why.empty();
  };
  if (const char* given = std::getenv("RATION_RUNTIME_DIR"); given != nullptr && *given != '\0') {
    std::error_code error;
    if (is_usable(std::filesystem::absolute(given, error))) return store;
  } else {
    if (is_usable(kMachineFolder)) return store;
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime != nullptr && is_usable(std::string(runtime) + "/ration")) return store;
    if (is_usable(folder_in_tmp())) return store;
  }
  return fail("E1405", fmt::format("no folder for the books: {} {}.", store.folder_, why),
              "export RATION_RUNTIME_DIR=<a folder of yours>", 125);
}

Result<void> Store::make(const std::string& folder) {
  if (const std::string why = unusable_for_books(folder); !why.empty())
    return fail("E1405", fmt::format("no folder for the books: {} {}.", folder, why), "ls -ld " + folder, 125);
  return {};
}

FileDescriptor Store::lock() const {
  FileDescriptor file{::open((folder_ + "/admission.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (file) ::flock(file.get(), LOCK_EX);
  return file;
}

FileDescriptor Store::try_lock() const {
  FileDescriptor file{::open((folder_ + "/admission.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return {};
  return file;
}

namespace {

tl::unexpected<Error> not_written(const std::string& path, int problem) {
  const bool full = problem == ENOSPC || problem == EDQUOT;
  return fail("E1405", fmt::format("{} cannot be written: {}.", path, std::strerror(problem)),
              full ? "Free some space there, or export RATION_RUNTIME_DIR=<another folder>"
                   : "export RATION_RUNTIME_DIR=<a folder of yours>",
              125);
}

}  // namespace

Result<std::uint64_t> Store::next_run() const {
  const std::string path = folder_ + "/last-run";
  const FileDescriptor file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  std::uint64_t number = 0;
  if (!file || ::flock(file.get(), LOCK_EX) != 0) return not_written(path, errno);
  if (::pread(file.get(), &number, sizeof number, 0) != sizeof number) number = 0;
  ++number;
  if (::pwrite(file.get(), &number, sizeof number, 0) != sizeof number) return not_written(path, errno);
  return number;
}

std::vector<StoredBook> Store::list() const {
  std::vector<StoredBook> books;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/books", error)) {
    StoredBook book;
    book.path = entry.path();
    if (Book::read(book.path.c_str(), book.contents) != BookStatus::kOk) continue;
    book.live = is_live(book.contents);
    books.push_back(std::move(book));
  }
  std::sort(books.begin(), books.end(), [](const StoredBook& left, const StoredBook& right) {
    return left.contents.run_number < right.contents.run_number;
  });
  std::size_t ended =
      static_cast<std::size_t>(std::count_if(books.begin(), books.end(), [](const auto& book) { return !book.live; }));
  std::erase_if(books, [&](const StoredBook& book) {
    if (book.live || ended <= kEndedKept) return false;
    --ended;
    ::unlink(book.path.c_str());
    return true;
  });
  return books;
}

std::vector<std::pair<std::string, std::string>> Store::damaged() const {
  std::vector<std::pair<std::string, std::string>> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/books", error)) {
    BookSnapshot contents;
    const BookStatus status = Book::read(entry.path().c_str(), contents);
    if (status != BookStatus::kOk) files.emplace_back(entry.path(), describe(status));
  }
  return files;
}

}  // namespace ration::ledger
