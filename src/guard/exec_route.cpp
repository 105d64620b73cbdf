// The exec family, posix_spawn and system() as the guard exports them: a program that a governed process starts gets
// the guard and the book, whatever environment its launcher passes (kept_environment.hpp). If the environment has both
// the guard and the book, or the program cannot load the guard, the call goes to libc unchanged. Promises: errors are
// libc's; async-signal-safe, even in a child of vfork(): a new environment lies on the stack, or in a mapping of its
// own if it is large.
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wordexp.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "guard/elf_peek.hpp"
#include "guard/kept_environment.hpp"
#include "guard/launchers.hpp"

namespace ration::guard {
namespace {

using Words = char* const*;

/// The definitions that follow the guard's in the linker's order: those of another preloaded library, or libc's.
struct Next {
  int (*execve)(const char*, Words, Words);
  int (*execvpe)(const char*, Words, Words);
  int (*execveat)(int, const char*, Words, Words, int);
  int (*fexecve)(int, Words, Words);
  decltype(&::posix_spawn) spawn, spawnp;
  int (*pidfd_spawn)(int*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, Words, Words);
  int (*pidfd_spawnp)(int*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, Words, Words);
  decltype(&::system) system;
  decltype(&::popen) popen;
  decltype(&::wordexp) wordexp;
};
Next found;

template <typename Function>
Function look_up(Function& place, const char* name) noexcept {
  if (place == nullptr) place = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
  return place;
}

// Looks up all functions when the library is loaded. A look-up in a forked child could hang: another thread may have
// held the dynamic linker's lock at the fork.
[[gnu::constructor]] void find_all() noexcept {
  look_up(found.execve, "execve");
  look_up(found.execvpe, "execvpe");
  look_up(found.execveat, "execveat");
  look_up(found.fexecve, "fexecve");
  look_up(found.spawn, "posix_spawn");
  look_up(found.spawnp, "posix_spawnp");
}

/// An open file that is closed without changing errno.
class File {
 public:
  File(int folder, const char* path) noexcept
      : descriptor_(::openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)), is_own_(true) {}
  explicit File(int descriptor) noexcept : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (is_own_ && descriptor_ >= 0) ::close(descriptor_);
    errno = saved_;
  }

  long operator()(void* to, unsigned long length, unsigned long offset) const noexcept {
    return ::pread(descriptor_, to, length, static_cast<off_t>(offset));
  }

 private:
  int saved_ = errno;
  int descriptor_ = -1;
  bool is_own_ = false;
};

/// Returns false if the program cannot load the guard, because it is for another processor, has 32 bits, or is linked
/// with musl. Returns true for a file that cannot be read or is not ELF.
bool takes_guard(const File& file) noexcept {
  const ElfPeek elf(file);
  if (!elf.is_elf()) return true;
  char loader[ElfPeek::kNameLength];
  return elf.is_ours() && (!elf.interpreter(file, loader) || std::strstr(loader, "musl") == nullptr);
}

/// Returns takes_guard() of the program, or, for a script, of the interpreter that runs it.
bool starts_with_guard(const File& file) noexcept {
  char line[256];
  const long length = file(line, sizeof line - 1, 0);
  if (length < 2 || line[0] != '#' || line[1] != '!') return takes_guard(file);
  line[length] = '\0';
  char* interpreter = line + 2 + std::strspn(line + 2, " \t");
  interpreter[std::strcspn(interpreter, " \t\n")] = '\0';
  return takes_guard(File(AT_FDCWD, interpreter));
}

bool is_program(const char* path) noexcept {
  struct stat status {};
  return ::stat(path, &status) == 0 && S_ISREG(status.st_mode) && ::access(path, X_OK) == 0;
}

/// Returns starts_with_guard() of the program that execvp(3) finds under `name`.
bool found_with_guard(const char* name) noexcept {
  if (std::strchr(name, '/') != nullptr) return starts_with_guard(File(AT_FDCWD, name));
  const int saved = errno;
  bool good = true;
  const char* folders = std::getenv("PATH");
  const std::size_t length = std::strlen(name);
  for (const char* at = folders != nullptr ? folders : "/bin:/usr/bin"; length <= NAME_MAX;) {
    const std::size_t folder = std::strcspn(at, ":");
    char path[PATH_MAX + NAME_MAX + 2];
    if (folder < PATH_MAX) {
      std::memcpy(path, at, folder);
      path[folder] = '/';
      std::strcpy(path + folder + (folder != 0 ? 1 : 0), name);
      if (is_program(path)) {
        good = starts_with_guard(File(AT_FDCWD, path));
        break;
      }
    }
    if (at[folder] == '\0') break;
    at += folder + 1;
  }
  errno = saved;
  return good;
}

constexpr std::size_t kOnStack = 64 << 10;

/// Calls `start` with the environment for the new program. `takes` returns whether the program can load the guard;
/// `failed` is the result when memory runs out.
template <typename Takes, typename Start, typename Failed>
[[gnu::noinline]] int start_with_guard(Words given, const Takes& takes, const Start& start,
                                       const Failed& failed) noexcept {
  const std::size_t size = room_for_guard(given);
  if (size == 0 || !takes()) return start(given);
  if (size <= kOnStack) return start(with_guard(given, __builtin_alloca(size)));
  void* room = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return failed();
  const int result = start(with_guard(given, room));
  const int saved = errno;
  ::munmap(room, size);
  errno = saved;
  return result;
}

int no_memory() noexcept {
  errno = ENOMEM;
  return -1;
}
int no_memory_to_spawn() noexcept { return ENOMEM; }

int missing() noexcept {
  errno = ENOSYS;
  return -1;
}

int start_path(const char* path, Words words, Words variables) noexcept {
  auto* next = look_up(found.execve, "execve");
  if (next == nullptr) return missing();
  note_launcher(path, words);
  return start_with_guard(
      variables, [&] { return starts_with_guard(File(AT_FDCWD, path)); },
      [&](Words all) { return next(path, words, all); }, no_memory);
}

int start_name(const char* name, Words words, Words variables) noexcept {
  auto* next = look_up(found.execvpe, "execvpe");
  if (next == nullptr) return missing();
  note_launcher(name, words);
  return start_with_guard(
      variables, [&] { return found_with_guard(name); }, [&](Words all) { return next(name, words, all); }, no_memory);
}

template <typename Function, typename Pid>
int spawn(Function* next, bool by_name, Pid* pid, const char* program, const posix_spawn_file_actions_t* actions,
          const posix_spawnattr_t* attributes, Words words, Words variables) noexcept {
  if (next == nullptr) return ENOSYS;
  note_launcher(program, words);
  return start_with_guard(
      variables, [&] { return by_name ? found_with_guard(program) : starts_with_guard(File(AT_FDCWD, program)); },
      [&](Words all) { return next(pid, program, actions, attributes, words, all); }, no_memory_to_spawn);
}

/// Counts the arguments of execl() and its like by reading `rest` up to the terminating null.
std::size_t count_words(std::va_list& rest) noexcept {
  std::size_t count = 1;
  while (va_arg(rest, char*) != nullptr) ++count;
  return count;
}

/// Collects `first` and the next `count` arguments of `rest` into `words`, for execv().
void take_words(char** words, std::size_t count, const char* first, std::va_list& rest) noexcept {
  words[0] = const_cast<char*>(first);
  for (std::size_t i = 1; i <= count; ++i) words[i] = va_arg(rest, char*);
}

}  // namespace
}  // namespace ration::guard

using namespace ration::guard;

// Collects the arguments of a variadic call into `words` and leaves `rest` after them.
#define RATION_WORDS(first)                                                          \
  std::va_list rest;                                                                 \
  va_start(rest, first);                                                             \
  const std::size_t count = count_words(rest);                                       \
  va_end(rest);                                                                      \
  char** words = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*))); \
  va_start(rest, first);                                                             \
  take_words(words, count, first, rest)

// Defines a function under libc's name without binding to libc's header: glibc's releases differ in noexcept and in
// which arguments may be null.
#define RATION_UNDER_NAME_OF(name, parameters)         \
  int route_##name parameters noexcept __asm__(#name); \
  int route_##name parameters noexcept

#pragma GCC visibility push(default)
extern "C" {

int execve(const char* path, Words words, Words variables) noexcept { return start_path(path, words, variables); }
int execv(const char* path, Words words) noexcept { return start_path(path, words, environ); }
int execvp(const char* name, Words words) noexcept { return start_name(name, words, environ); }
int execvpe(const char* name, Words words, Words variables) noexcept { return start_name(name, words, variables); }

int execl(const char* path, const char* first, ...) noexcept {
  RATION_WORDS(first);
  va_end(rest);
  return start_path(path, words, environ);
}

int execlp(const char* name, const char* first, ...) noexcept {
  RATION_WORDS(first);
  va_end(rest);
  return start_name(name, words, environ);
}

int execle(const char* path, const char* first, ...) noexcept {
  RATION_WORDS(first);
  Words variables = va_arg(rest, Words);
  va_end(rest);
  return start_path(path, words, variables);
}

int fexecve(int descriptor, Words words, Words variables) noexcept {
  auto* next = look_up(found.fexecve, "fexecve");
  if (next == nullptr) return missing();
  return start_with_guard(
      variables, [&] { return starts_with_guard(File(descriptor)); },
      [&](Words all) { return next(descriptor, words, all); }, no_memory);
}

// Calls the kernel if libc has no execveat(); glibc has it since 2.34.
RATION_UNDER_NAME_OF(execveat, (int folder, const char* path, Words words, Words variables, int flags)) {
  auto* next = look_up(found.execveat, "execveat");
  note_launcher(path, words);
  const bool by_descriptor = path != nullptr && *path == '\0' && (flags & AT_EMPTY_PATH) != 0;
  return start_with_guard(
      variables,
      [&] { return by_descriptor ? starts_with_guard(File(folder)) : starts_with_guard(File(folder, path)); },
      [&](Words all) {
        return next != nullptr ? next(folder, path, words, all, flags)
                               : static_cast<int>(::syscall(SYS_execveat, folder, path, words, all, flags));
      },
      no_memory);
}

RATION_UNDER_NAME_OF(posix_spawn, (pid_t * pid, const char* path, const posix_spawn_file_actions_t* actions,
                                   const posix_spawnattr_t* attributes, Words words, Words variables)) {
  return spawn(look_up(found.spawn, "posix_spawn"), false, pid, path, actions, attributes, words, variables);
}

RATION_UNDER_NAME_OF(posix_spawnp, (pid_t * pid, const char* name, const posix_spawn_file_actions_t* actions,
                                    const posix_spawnattr_t* attributes, Words words, Words variables)) {
  return spawn(look_up(found.spawnp, "posix_spawnp"), true, pid, name, actions, attributes, words, variables);
}

// Returns ENOSYS if libc has no pidfd_spawn(), which glibc has from 2.39 on. Under an old kernel, glibc's pidfd_spawn()
// returns ENOSYS, too.
RATION_UNDER_NAME_OF(pidfd_spawn, (int* pidfd, const char* path, const posix_spawn_file_actions_t* actions,
                                   const posix_spawnattr_t* attributes, Words words, Words variables)) {
  return spawn(look_up(found.pidfd_spawn, "pidfd_spawn"), false, pidfd, path, actions, attributes, words, variables);
}

RATION_UNDER_NAME_OF(pidfd_spawnp, (int* pidfd, const char* name, const posix_spawn_file_actions_t* actions,
                                    const posix_spawnattr_t* attributes, Words words, Words variables)) {
  return spawn(look_up(found.pidfd_spawnp, "pidfd_spawnp"), true, pidfd, name, actions, attributes, words, variables);
}

// Puts the guard back into the process's own environment, which system(), popen() and wordexp() pass on inside libc.
int system(const char* command) {
  if (command != nullptr) put_back_here();
  auto* next = look_up(found.system, "system");
  return next != nullptr ? next(command) : missing();
}

std::FILE* popen(const char* command, const char* mode) {
  put_back_here();
  auto* next = look_up(found.popen, "popen");
  return next != nullptr ? next(command, mode) : nullptr;
}

int wordexp(const char* text, wordexp_t* result, int flags) {
  if ((flags & WRDE_NOCMD) == 0) put_back_here();
  auto* next = look_up(found.wordexp, "wordexp");
  return next != nullptr ? next(text, result, flags) : WRDE_NOSPACE;
}

}  // extern "C"
#pragma GCC visibility pop
#undef RATION_UNDER_NAME_OF
