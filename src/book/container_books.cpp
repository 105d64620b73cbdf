#include "book/container_books.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "book/book.hpp"
#include "book/book_reader.hpp"
#include "book/layout.hpp"

namespace ration::book {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGrantedFolder = "granted";
constexpr const char* kMakingFolder = "making";  // the folder of file systems whose books are unfinished
constexpr std::size_t kBeginning = offsetof(BookLayout, accounts) + sizeof(BookLayout::accounts);

std::string beside(const std::string& book, const char* folder) {
  const fs::path path(book);
  return (path.parent_path().parent_path() / folder / path.filename()).string();
}

bool copy_bytes(int from, int to, std::size_t size) {
  const std::unique_ptr<std::byte[]> bytes(new std::byte[size]);
  std::size_t had = 0;
  while (had < size) {
    const ssize_t more = ::pread(from, bytes.get() + had, size - had, static_cast<off_t>(had));
    if (more <= 0) return false;
    had += static_cast<std::size_t>(more);
  }
  return ::pwrite(to, bytes.get(), size, 0) == static_cast<ssize_t>(size);
}

FileDescriptor fresh_file(const std::string& path) {
  ::unlink(path.c_str());
  return FileDescriptor{::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
}

/// Records the header and the accounts of a book that no other process can reach yet.
bool keep_granted(const std::string& whole, const std::string& book) {
  const std::string path = granted_path(book), unfinished = path + kUnfinished;
  ::mkdir(fs::path(path).parent_path().c_str(), 0700);
  const FileDescriptor from{::open(whole.c_str(), O_RDONLY | O_CLOEXEC)}, to = fresh_file(unfinished);
  const bool kept = from && to && copy_bytes(from.get(), to.get(), kBeginning) &&
                    ::ftruncate(to.get(), sizeof(BookLayout)) == 0 && ::rename(unfinished.c_str(), path.c_str()) == 0;
  if (!kept) ::unlink(unfinished.c_str());
  return kept;
}

bool is_same_file(const std::string& one, const std::string& other) {
  struct stat first {
  }, second{};
  return ::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

void remove_making(const std::string& folder) {
  ::umount2(folder.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  ::rmdir(folder.c_str());
}

/// Makes a file system of two inodes, the folder and the book, with room for the book alone. The book's file is mounted
/// at the path `book`; the file system lives as long as any process has it mounted or has the book open. Records the
/// grants last; until then the daemon ignores a book that every user may write.
bool create_in_own_file_system(const std::string& book, const NewBook& contents, std::int32_t daemon) {
  const std::string folder = beside(book, kMakingFolder), file = folder + "/book";
  ::mkdir(fs::path(folder).parent_path().c_str(), 0700);
  if (::mkdir(folder.c_str(), 0700) != 0) return false;
  const std::string room = fmt::format("size={},nr_inodes=2,mode=0700", sizeof(BookLayout));
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  const bool made = ::mount("ration", folder.c_str(), "tmpfs", kFlags, room.c_str()) == 0 &&
                    Book::create(file.c_str(), contents) == BookStatus::kOk && ::chmod(file.c_str(), 0666) == 0 &&
                    FileDescriptor{::open(book.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)} &&
                    ::mount(file.c_str(), book.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
                    is_same_file(book, fmt::format("/proc/{}/root{}", daemon, book)) && keep_granted(file, book);
  remove_making(folder);
  if (!made) remove_book(book);
  return made;
}

BookStatus create_as_plain_file(const std::string& book, const NewBook& contents) {
  const std::string whole = book + ".whole" + kUnfinished;
  ::unlink(whole.c_str());
  if (const BookStatus status = Book::create(whole.c_str(), contents); status != BookStatus::kOk) return status;
  if (::chmod(whole.c_str(), 0666) == 0 && keep_granted(whole, book) && ::rename(whole.c_str(), book.c_str()) == 0)
    return BookStatus::kOk;
  ::unlink(whole.c_str());
  remove_book(book);
  return BookStatus::kSystem;
}

/// Copies the book, with the header that was granted, to a file that only its owner can write.
bool copy_of_ended(const std::string& book, const std::string& granted, const std::string& copy, std::int32_t status) {
  BookSnapshot contents;
  if (Book::read(book.c_str(), contents) != BookStatus::kOk) return false;
  const FileDescriptor from{::open(book.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)},
      record{::open(granted.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)}, to = fresh_file(copy);
  if (!from || !record || !to || !copy_bytes(from.get(), to.get(), sizeof(BookLayout))) return false;
  // Restores the granted header, except the fields that the workload writes.
  BookHeader header;
  if (::pread(record.get(), &header, sizeof header, 0) != sizeof header) return false;
  const auto put_back = [&](std::size_t first, std::size_t end) {
    return ::pwrite(to.get(), reinterpret_cast<const char*>(&header) + first, end - first, static_cast<off_t>(first)) ==
           static_cast<ssize_t>(end - first);
  };
  if (!put_back(0, offsetof(BookHeader, ended_ns)) ||
      !put_back(offsetof(BookHeader, account_count), offsetof(BookHeader, limit_changes)))
    return false;
  Book ended;
  if (Book::open(copy.c_str(), ended) != BookStatus::kOk) return false;
  ended.processes().reap();
  ended.mark_ended(status);
  return true;
}

}  // namespace

std::string granted_path(const std::string& book) { return beside(book, kGrantedFolder); }

std::optional<BookSnapshot> read_granted(const std::string& book, std::uint32_t owner) {
  BookReader reader;
  BookSnapshot granted;
  if (BookReader::open(granted_path(book).c_str(), reader) != BookStatus::kOk || reader.owner() != owner ||
      reader.read(granted) != BookStatus::kOk)
    return std::nullopt;
  return granted;
}

void restore_identity(BookSnapshot& book, const BookSnapshot& granted) {
  book.name = granted.name;
  book.tenant = granted.tenant;
  book.slice = granted.slice;
  book.labels = granted.labels;
  book.command = granted.command;
  book.simulation = granted.simulation;
  book.run_number = granted.run_number;
  book.created_ns = granted.created_ns;
  book.creator = granted.creator;
  book.account_mode = granted.account_mode;
  book.managed = granted.managed;
}

BookStatus create_granted(const std::string& book, const NewBook& contents, std::optional<std::int32_t> daemon) {
  if (daemon && create_in_own_file_system(book, contents, *daemon)) return BookStatus::kOk;
  return create_as_plain_file(book, contents);
}

void remove_book(const std::string& book) {
  // This fails if only other mount namespaces have the book mounted; removing the name removes those mounts.
  ::umount2(book.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  ::unlink(book.c_str());
  ::unlink(granted_path(book).c_str());
}

void retire(const std::string& book, std::int32_t exit_status) {
  const std::string granted = granted_path(book), copy = book + ".ended";
  const FileDescriptor record{::open(granted.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  // The hook and the daemon notice the end of a container at the same moment; the lock lets only one of them go on.
  if (!record || ::flock(record.get(), LOCK_EX | LOCK_NB) != 0 ||
      !is_same_file(granted, fmt::format("/proc/self/fd/{}", record.get())))
    return;
  const bool sound = copy_of_ended(book, granted, copy, exit_status);
  ::umount2(book.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  ::unlink(book.c_str());
  if (!sound || ::rename(copy.c_str(), book.c_str()) != 0) ::unlink(copy.c_str());
  ::unlink(granted.c_str());
}

void retire_ended(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator each(folder + "/" + kGrantedFolder, error), end; !error && each != end;
       each.increment(error)) {
    const std::string book = folder + "/books/" + each->path().filename().string();
    const auto granted = read_granted(book, ::getuid());
    if (granted && liveness(granted->creator) == Liveness::kDead) retire(book);
  }
}

namespace {

/// Returns true if the hook was killed before it recorded the grants, so that no container has this book.
bool is_unfinished(const std::string& book) {
  struct stat status {};
  if (::lstat(book.c_str(), &status) != 0 || ::access(granted_path(book).c_str(), F_OK) == 0) return false;
  if (status.st_size == 0) return true;
  BookSnapshot contents;
  return (status.st_mode & S_IWOTH) != 0 && Book::read(book.c_str(), contents) == BookStatus::kOk &&
         liveness(contents.creator) == Liveness::kDead;
}

}  // namespace

void remove_unfinished(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator each(folder + "/" + kMakingFolder, error), end; !error && each != end;
       each.increment(error))
    remove_making(each->path());
  for (const char* inside : {"/books", "/granted"})
    for (fs::directory_iterator each(folder + inside, error), end; !error && each != end; each.increment(error))
      if (each->path().extension() == kUnfinished || is_unfinished(each->path())) remove_book(each->path());
}

}  // namespace ration::book
