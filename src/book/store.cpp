#include "book/store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/byte_lock.hpp"
#include "base/own_folder.hpp"
#include "book/container_books.hpp"
#include "book/layout.hpp"

namespace ration::book {
namespace {

constexpr std::size_t kEndedKept = 32;

std::string unusable_for_books(const std::string& folder) {
  const mode_t mode = ::getuid() == 0 ? 0755 : 0700;
  if (std::string why = make_own_folder(folder, mode); !why.empty()) return why;
  if (folder == kMachineFolder) ::chmod(folder.c_str(), mode);  // overrides the maker's umask
  return make_own_folder(folder + "/books", 0700);
}

bool is_live(const std::string& path, const BookSnapshot& book) {
  if (book.ended_ns == 0 && liveness(book.creator) != Liveness::kDead) return true;
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  return std::any_of(book.processes.begin(), book.processes.end(), [&](const ProcessSnapshot& process) {
    const Liveness known = liveness(process.identity);
    // A process of another pid namespace is judged by its lock on the book.
    return known == Liveness::kAlive || (known == Liveness::kUnknown && byte_is_locked(file.get(), process.slot));
  });
}

/// Returns the paths of the books in that folder.
std::vector<std::string> books_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/books", error))
    if (entry.path().extension() == kBookEnding) paths.push_back(entry.path());
  return paths;
}

}  // namespace

Result<Store> Store::open() {
  Store store;
  std::string why;
  const auto is_usable = [&](const std::string& folder) {
    why = unusable_for_books(folder);
    store.folder_ = real_path(folder);
    return why.empty();
  };
  if (const char* given = std::getenv("RATION_RUNTIME_DIR"); given != nullptr && *given != '\0') {
    if (is_usable(real_path(given))) return store;
  } else {
    if (is_usable(kMachineFolder)) return store;
    const std::string runtime = own_runtime_folder();
    if (!runtime.empty() && is_usable(runtime + "/ration")) return store;
    if (is_usable(own_folder_in_tmp("ration"))) return store;
  }
  return fail("E1405", fmt::format("books cannot be kept, because {} {}.", store.folder_, why),
              "export RATION_RUNTIME_DIR=<a folder of yours>", 125);
}

Result<void> Store::make(const std::string& folder) {
  if (const std::string why = unusable_for_books(folder); !why.empty())
    return fail("E1405", fmt::format("books cannot be kept, because {} {}.", folder, why), "ls -ld " + folder, 125);
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
  for (const std::string& path : books_in(folder_)) {
    StoredBook book;
    book.path = path;
    const auto granted = read_granted(path, ::getuid());
    if (Book::read(path.c_str(), book.contents) != BookStatus::kOk) {
      if (!granted) continue;
      book.contents = *granted;
    }
    if (granted) {  // a container's book, which could contain any identity
      restore_identity(book.contents, *granted);
      book.live = liveness(granted->creator) != Liveness::kDead;
    } else {
      book.live = is_live(path, book.contents);
      // The workload may have recorded its end between the reading and the check of its processes.
      if (!book.live && book.contents.ended_ns == 0) (void)Book::read(path.c_str(), book.contents);
    }
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
    remove_book(book.path);
    return true;
  });
  return books;
}

std::vector<std::pair<std::string, std::string>> Store::damaged() const {
  std::vector<std::pair<std::string, std::string>> files;
  for (const std::string& path : books_in(folder_)) {
    BookSnapshot contents;
    const BookStatus status = Book::read(path.c_str(), contents);
    if (status != BookStatus::kOk && status != BookStatus::kOtherVersion) files.emplace_back(path, describe(status));
  }
  return files;
}

std::set<std::string> Store::simulations() const {
  std::set<std::string> all;
  for (const std::string& path : books_in(folder_)) {
    const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
    char simulation[sizeof BookHeader::simulation];
    const ssize_t length =
        file ? ::pread(file.get(), simulation, sizeof simulation, offsetof(BookHeader, simulation)) : 0;
    if (length == sizeof simulation && simulation[0] != '\0')
      all.emplace(simulation, ::strnlen(simulation, sizeof simulation));
  }
  return all;
}

std::vector<ForeignBook> Store::of_other_versions() const {
  std::vector<ForeignBook> books;
  std::error_code error;
  for (const std::string& path : books_in(folder_)) {
    const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
    BookStart start{};
    if (!file || ::pread(file.get(), &start, sizeof start, 0) != sizeof start) continue;
    if (start.magic != kBookMagic || start.version == kBookVersion) continue;
    ForeignBook book;
    book.path = path;
    const std::string stem = std::filesystem::path(path).stem();  // NAME.RUN
    book.name = stem.substr(0, stem.rfind('.'));
    book.format = start.version;
    book.creator.pid = start.creator_pid;
    book.creator.user = start.creator_user;
    book.creator.start_time = start.creator_start_time;
    book.creator.pid_namespace = start.creator_pid_namespace;
    book.live = start.creator_pid > 0 && liveness(book.creator) == Liveness::kAlive;
    if (book.live)
      book.program = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", start.creator_pid), error).string();
    books.push_back(std::move(book));
  }
  return books;
}

}  // namespace ration::book
