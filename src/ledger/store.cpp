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

bool usable(const std::string& folder) {
  ::mkdir(folder.c_str(), 0700);
  struct stat status {};
  return ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::getuid() &&
         ::access(folder.c_str(), W_OK | X_OK) == 0;
}

bool is_live(const BookSnapshot& book) {
  if (book.ended_ns == 0 && liveness(book.creator) != Liveness::kDead) return true;
  return std::any_of(book.processes.begin(), book.processes.end(),
                     [](const ProcessSnapshot& process) { return liveness(process.identity) != Liveness::kDead; });
}

}  // namespace

Result<Store> Store::open() {
  std::vector<std::string> candidates;
  if (const char* given = std::getenv("RATION_RUNTIME_DIR"); given != nullptr && *given != '\0') {
    candidates = {given};
  } else {
    candidates.emplace_back("/run/ration");
    if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr)
      candidates.push_back(std::string(runtime) + "/ration");
    candidates.push_back(fmt::format("/tmp/ration-{}", ::getuid()));
  }
  for (const std::string& folder : candidates) {
    if (!usable(folder) || !usable(folder + "/books")) continue;
    Store store;
    store.folder_ = folder;
    return store;
  }
  return fail("E1405", fmt::format("no folder for the books: {} cannot be written by this user.", candidates.back()),
              "export RATION_RUNTIME_DIR=<a folder of yours>", 125);
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

Result<std::uint64_t> Store::next_run() const {
  const std::string path = folder_ + "/last-run";
  const FileDescriptor file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  std::uint64_t number = 0;
  if (!file || ::flock(file.get(), LOCK_EX) != 0) {
    return fail("E1405", fmt::format("{} cannot be written: {}.", path, std::strerror(errno)),
                "free some space there, or export RATION_RUNTIME_DIR=<another folder>", 125);
  }
  if (::pread(file.get(), &number, sizeof number, 0) != sizeof number) number = 0;
  ++number;
  if (::pwrite(file.get(), &number, sizeof number, 0) != sizeof number) {
    return fail("E1405", fmt::format("{} cannot be written: {}.", path, std::strerror(errno)),
                "free some space there, or export RATION_RUNTIME_DIR=<another folder>", 125);
  }
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
