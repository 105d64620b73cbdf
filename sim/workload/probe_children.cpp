// The ways of taking memory in a child process whose launcher leaves the guard out of its environment.
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/command.hpp"
#include "sim/workload/child.hpp"
#include "sim/workload/way.hpp"

namespace ration::workload {

using namespace cuda;

namespace {

Child child;

// Calls execveat(), which glibc has since 2.34 and a preloaded library may define. If no library has the function,
// calls the kernel directly.
void by_execveat(const char* program, char* const* words, char* const* variables) {
  using Function = int(int, const char*, char* const*, char* const*, int);
  if (auto* function = reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, "execveat")); function != nullptr)
    function(AT_FDCWD, program, words, variables, 0);
  else
    ::syscall(SYS_execveat, AT_FDCWD, program, words, variables, 0);
}
void by_fexecve(const char* program, char* const* words, char* const* variables) {
  ::fexecve(::open(program, O_RDONLY | O_CLOEXEC), words, variables);
}
void by_spawn(const char* program, char* const* words, char* const* variables) {
  pid_t spawned = 0;
  if (::posix_spawn(&spawned, program, nullptr, nullptr, words, variables) == 0) ::waitpid(spawned, nullptr, 0);
}
void by_vfork(const char* program, char* const* words, char* const* variables) {
  const pid_t forked = ::vfork();
  if (forked == 0) {
    ::execve(program, words, variables);
    ::_exit(127);
  }
  ::waitpid(forked, nullptr, 0);
}
void by_shell(const char* /*program*/, char* const* words, char* const* variables) {
  std::string line;
  for (; *words != nullptr; ++words) line += shell_word(*words) + " ";
  ::environ = const_cast<char**>(variables);
  (void)!std::system(line.c_str());
}

/// Makes a way that takes memory in a child process. The first request starts the child.
Way way(const char* name, Start* start, const Altered& altered) {
  return {name,
          [start, altered](std::size_t size) {
            if (!child.is_running() && !child.start(start, altered)) return CUDA_ERROR_UNKNOWN;
            return child.ask("take " + std::to_string(size >> 20));
          },
          [] {
            child.stop();
            look_for_the_dead();
          }};
}

}  // namespace

std::vector<Way> child_ways() {
  const Altered without{{"LD_PRELOAD"}, {}};
  return {
      way("child-execve", execute, without),
      way("child-execveat", by_execveat, without),
      way("child-fexecve", by_fexecve, without),
      way("child-spawned", by_spawn, without),
      way("child-vfork", by_vfork, without),
      way("child-of-a-shell", by_shell, without),
      way("child-own-preload", execute, {{"LD_PRELOAD"}, {"LD_PRELOAD=libm.so.6"}}),
      way("child-short-environment", execute, {{"LD_PRELOAD", "LD_AUDIT", "RATION_BOOK"}, {}}),
  };
}

}  // namespace ration::workload
