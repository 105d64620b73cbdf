#include "book/descriptor_label.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/system_calls.hpp"

namespace ration::book {
namespace {

struct flock range(short type, std::uint64_t start, std::uint64_t length) noexcept {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(start);
  lock.l_len = static_cast<off_t>(length);
  return lock;
}

/// Parses one line of /proc/self/fdinfo: `lock: 1: OFDLCK ADVISORY READ -1 00:06:3 FIRST LAST`.
bool label_in(const char* line, Label& out) noexcept {
  if (std::strncmp(line, "lock:", 5) != 0 || std::strstr(line, "OFDLCK") == nullptr) return false;
  const char* last_word = std::strrchr(line, ' ');
  if (last_word == nullptr || last_word == line) return false;
  const char* first_word = last_word - 1;
  while (first_word > line && *first_word != ' ') --first_word;
  const std::uint64_t first = std::strtoull(first_word, nullptr, 10);
  const std::uint64_t last = std::strtoull(last_word, nullptr, 10);
  if (first == 0 || first >= kLabelEnd || last < first || last >= 2 * kLabelEnd) return false;
  out = {first, kGranule * (last - first + 1)};
  return true;
}

// Opens the control file. Its path comes from a book, which the user can write, and opening some devices has side
// effects. So this opens only files whose descriptors a driver exports: a device of NVIDIA's (major 195 in Linux's
// devices.txt) or the simulator's file.
FileDescriptor open_control_file(const char* path) noexcept {
  constexpr unsigned kNvidiaMajor = 195;
  const FileDescriptor place{::open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW)};
  struct stat status {};
  if (!place || ::fstat(place.get(), &status) != 0) return {};
  if (!S_ISREG(status.st_mode) && !(S_ISCHR(status.st_mode) && major(status.st_rdev) == kNvidiaMajor)) return {};
  char itself[40];
  std::snprintf(itself, sizeof itself, "/proc/self/fd/%d", place.get());
  return FileDescriptor{::open(itself, O_RDWR | O_CLOEXEC | O_NONBLOCK)};
}

}  // namespace

std::uint64_t draw_number() noexcept {
  std::uint64_t number = 0;
  while (number == 0) {
    if (!random_bytes(&number, sizeof number)) return 0;
    number %= kLabelEnd;
  }
  return number;
}

bool set_label(int descriptor, const Label& label) noexcept {
  const std::uint64_t granules = round_up(label.size, kGranule).count() / kGranule.count();
  // This is a read lock, because several descriptors can be exported for the same memory and each of them has this
  // lock.
  struct flock lock = range(F_RDLCK, label.number, granules > 0 ? granules : 1);
  return ::fcntl(descriptor, F_OFD_SETLK, &lock) == 0;
}

Label read_label(int descriptor) noexcept {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fdinfo/%d", descriptor);
  const FileDescriptor file{::open(path, O_RDONLY | O_CLOEXEC)};
  char text[2048];
  std::size_t length = 0;
  while (file && length < sizeof text - 1) {
    const ssize_t got = ::read(file.get(), text + length, sizeof text - 1 - length);
    if (got <= 0) break;
    length += static_cast<std::size_t>(got);
  }
  text[length] = '\0';
  Label label;
  for (char* line = text; line != nullptr && *line != '\0';) {
    char* end = std::strchr(line, '\n');
    if (end != nullptr) *end = '\0';
    if (label_in(line, label)) return label;
    line = end != nullptr ? end + 1 : nullptr;
  }
  return {};
}

bool control_file_of(int descriptor, ControlFile& out) noexcept {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return false;
  out = {status.st_dev, status.st_ino};
  return true;
}

bool LabelSearch::can_tell(const ControlFile& of) noexcept {
  if (!tried_) {
    tried_ = true;
    file_ = open_control_file(path_);
    if (!file_ || !control_file_of(file_.get(), opened_)) opened_ = {};
  }
  return file_ && opened_.device == of.device && opened_.inode == of.inode;
}

bool LabelSearch::lives(std::uint64_t number, const ControlFile& of) noexcept {
  if (!can_tell(of)) return true;
  struct flock lock = range(F_WRLCK, number, 1);
  return ::fcntl(file_.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace ration::book
