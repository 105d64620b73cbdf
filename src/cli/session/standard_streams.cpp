#include "cli/session/standard_streams.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

namespace ration::cli {

void reserve_standard_streams() {
  for (int number = 0; number <= 2; ++number) {
    if (::fcntl(number, F_GETFD) >= 0) continue;
    (void)!::open("/dev/null", O_RDWR | O_CLOEXEC);  // gets the lowest free number
  }
}

void choose_character_set() {
  if (std::setlocale(LC_CTYPE, "") != nullptr) return;
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string name = std::getenv(variable) == nullptr ? "" : std::getenv(variable);
    if (name.empty()) continue;
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) { return std::tolower(letter); });
    if (name.find("utf-8") != std::string::npos || name.find("utf8") != std::string::npos)
      (void)std::setlocale(LC_CTYPE, "C.UTF-8");
    return;
  }
}

void tell(const std::function<void()>& print) {
  struct sigaction before {};
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before);
  try {
    print();
  } catch (const std::system_error&) {  // thrown by fmt where the stream cannot be written
  }
  ::sigaction(SIGPIPE, &before, nullptr);
}

void end_if_nobody_reads(int error) {
  if (error != EPIPE) return;
  ::signal(SIGPIPE, SIG_DFL);
  ::raise(SIGPIPE);
}

Result<void> finish_output() {
  const bool failed_before = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !failed_before) return {};
  end_if_nobody_reads(errno);
  return fail("E1002", fmt::format("standard output cannot be written: {}.", std::strerror(errno)),
              "If it goes to a file in this folder, check the free space: df -h .", 1);
}

}  // namespace ration::cli
