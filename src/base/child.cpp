#include "base/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "base/system_calls.hpp"

extern char** environ;

namespace ration {

Result<Child> Child::start(std::vector<std::string> words, const std::string& input) {
  const auto failed = [&](int error) {
    return fail("E1548", fmt::format("{} cannot be started: {}.", words.front(), std::strerror(error)),
                fmt::format("which {}", words.front()));
  };
  // A file in memory takes the whole input at once, however slowly the child reads; a pipe would block.
  const FileDescriptor in{memory_file("ration-input")};
  if (!in || ::pwrite(in.get(), input.data(), input.size(), 0) != static_cast<ssize_t>(input.size()))
    return failed(errno);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return failed(errno);
  FileDescriptor reading{ends[0]}, writing{ends[1]};

  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  // The child gets its own process group, so that signals to the daemon's group do not reach it.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int problem = ::posix_spawnp(&pid, words.front().c_str(), &actions, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) return failed(problem);
  return Child{pid, std::move(reading)};
}

void Child::read_output() {
  constexpr std::size_t kMaxText = 65536;
  char piece[4096];
  ssize_t count = 0;
  while ((count = ::read(output_.get(), piece, sizeof piece)) > 0)
    if (text_.size() < kMaxText) text_.append(piece, static_cast<std::size_t>(count));
}

std::optional<Child::Ended> Child::poll() {
  read_output();
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  read_output();
  return Ended{status, std::move(text_)};
}

}  // namespace ration
