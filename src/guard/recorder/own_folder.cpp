#include "guard/recorder/own_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace ration::guard {
namespace {

/// A text that is built piece by piece. What does not fit is left out.
class Text {
 public:
  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) noexcept {
    std::va_list arguments;
    va_start(arguments, format);
    const int length = std::vsnprintf(text_ + length_, sizeof text_ - length_, format, arguments);
    va_end(arguments);
    if (length > 0 && length_ + static_cast<std::size_t>(length) < sizeof text_)
      length_ += static_cast<std::size_t>(length);
  }
  [[nodiscard]] const char* bytes() const noexcept { return text_; }
  [[nodiscard]] std::size_t size() const noexcept { return length_; }

 private:
  char text_[4096] = {};
  std::size_t length_ = 0;
};

using Number = unsigned long long;

void add(Text& text, const char* name, const Anchor& anchor) noexcept {
  text.add(R"("%s":{"ticks":%llu,"monotonic_ns":%llu,"unix_ns":%llu},)", name, static_cast<Number>(anchor.ticks),
           static_cast<Number>(anchor.monotonic_ns), static_cast<Number>(anchor.unix_ns));
}

void add(Text& text, const book::Account& account, bool is_first) noexcept {
  const auto device = account.device();
  text.add(R"(%s{"name":"","uuid":"GPU-)", is_first ? "" : ",");
  for (std::size_t at = 0; at < device.uuid.size(); ++at)
    text.add("%s%02x", at == 4 || at == 6 || at == 8 || at == 10 ? "-" : "", device.uuid[at]);
  text.add(R"(","total_bytes":%llu)", static_cast<Number>(device.total.count()));
  if (const Bytes limit = account.limits().given; limit < kUnlimited)
    text.add(R"(,"limit_bytes":%llu)", static_cast<Number>(limit.count()));
  text.add("}");
}

/// Writes a file under another name and renames it once it is complete. Returns the errno value of a failure, or 0.
int write_file(const char* folder, const char* name, const char* bytes, std::size_t size) noexcept {
  char path[PATH_MAX], unfinished[PATH_MAX];
  const int length = std::snprintf(path, sizeof path, "%s/%s", folder, name);
  if (length <= 0 || length + 5 >= PATH_MAX) return ENAMETOOLONG;
  std::memcpy(unfinished, path, static_cast<std::size_t>(length));
  std::memcpy(unfinished + length, ".new", sizeof ".new");
  const int file = ::open(unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return errno;
  const bool is_written = ::write(file, bytes, size) == static_cast<ssize_t>(size);
  const int error = is_written ? 0 : errno != 0 ? errno : ENOSPC;
  ::close(file);
  if (error == 0 && ::rename(unfinished, path) == 0) return 0;
  const int reason = error != 0 ? error : errno;
  ::unlink(unfinished);
  return reason;
}

}  // namespace

int make_own_folder(const char* folder) noexcept {
  static constexpr char kZeros[kPartHeaderSize] = {};
  if (::mkdir(folder, 0700) != 0) return errno;
  return write_file(folder, kLostFile, kZeros, sizeof kZeros);
}

int note_own_run(const char* folder, const book::Book& book, const Anchor& began, const Anchor& ended) noexcept {
  Text text;
  const std::string_view name = book.name();
  text.add(R"({"schema":"ration.recording.run/1","workload":"%.*s",)", static_cast<int>(name.size()), name.data());
  add(text, "began", began);
  add(text, "ended", ended);
  text.add(R"("main_pid":%d,"devices":[)", ::getpid());
  for (std::uint32_t account = 0; account < book.account_count(); ++account)
    add(text, book.account(account), account == 0);
  text.add("]}");
  return write_file(folder, "run.json", text.bytes(), text.size());
}

}  // namespace ration::guard
