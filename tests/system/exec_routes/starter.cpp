// Starts a program by one way of the exec family, with an environment that has nothing of ration in it, and ends as the
// program does. Run by exec_routes_test.py.
//   starter WAY PROGRAM WORDS...
//   starter errors    what each function answers to wrong arguments, a line each
#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

char own_variable[] = "OWN=kept";
char* clean[] = {own_variable, nullptr};

std::string line_of(char** words) {
  std::string line;
  for (; *words != nullptr; ++words) line += std::string(line.empty() ? "" : " ") + *words;
  return line;
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

int waited(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return code_of(status);
}

using Spawn = int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const*,
                  char* const*);

int spawned(Spawn* spawn, char** words, char** variables) {
  pid_t child = 0;
  const int error = spawn(&child, words[0], nullptr, nullptr, words, variables);
  return error == 0 ? waited(child) : 100 + error;
}

void empty_environment() {
  const std::string path = std::getenv("PATH");
  ::clearenv();
  ::setenv("PATH", path.c_str(), 1);  // what execvp() looks through is the process's own
}

/// The program's words as execl() takes them: as many as the test gives.
#define WORDS words[0], words[1], words[2], words[3], nullptr

std::map<std::string, std::function<int(char**)>> ways() {
  return {
      {"execve", [](char** words) { return ::execve(words[0], words, clean); }},
      {"execve-null", [](char** words) { return ::execve(words[0], words, nullptr); }},
      {"execv", [](char** words) { return empty_environment(), ::execv(words[0], words); }},
      {"execvp", [](char** words) { return empty_environment(), ::execvp(std::strrchr(words[0], '/') + 1, words); }},
      {"execvpe", [](char** words) { return ::execvpe(std::strrchr(words[0], '/') + 1, words, clean); }},
      {"execl", [](char** words) { return empty_environment(), ::execl(words[0], WORDS); }},
      {"execlp", [](char** words) { return empty_environment(), ::execlp(words[0], WORDS); }},
      {"execle", [](char** words) { return ::execle(words[0], WORDS, clean); }},
      {"fexecve", [](char** words) { return ::fexecve(::open(words[0], O_RDONLY), words, clean); }},
      {"fexecve-path", [](char** words) { return ::fexecve(::open(words[0], O_PATH), words, clean); }},
      {"execveat", [](char** words) { return ::execveat(AT_FDCWD, words[0], words, clean, 0); }},
      {"execveat-empty",
       [](char** words) { return ::execveat(::open(words[0], O_RDONLY), "", words, clean, AT_EMPTY_PATH); }},
      {"posix_spawn", [](char** words) { return spawned(::posix_spawn, words, clean); }},
      {"posix_spawn-null", [](char** words) { return spawned(::posix_spawn, words, nullptr); }},
      {"posix_spawnp", [](char** words) { return spawned(::posix_spawnp, words, clean); }},
      {"system", [](char** words) { return empty_environment(), code_of(::system(line_of(words).c_str())); }},
      {"popen",
       [](char** words) {
         ::unsetenv("LD_PRELOAD");
         return code_of(::pclose(::popen(line_of(words).c_str(), "w")));
       }},
      {"wordexp",
       [](char** words) {
         empty_environment();
         wordexp_t result;
         return ::wordexp(("$(" + line_of(words) + "; echo $?)").c_str(), &result, WRDE_SHOWERR) == 0
                    ? std::atoi(result.we_wordv[result.we_wordc - 1])
                    : 99;
       }},
      {"vfork",
       [](char** words) {
         const pid_t child = ::vfork();
         if (child == 0) {
           ::execve(words[0], words, clean);
           ::_exit(98);
         }
         return waited(child);
       }},
      {"fork-of-a-thread",
       [](char** words) {
         int code = 97;
         std::thread([&] {
           const pid_t child = ::fork();
           if (child == 0) {
             ::execve(words[0], words, clean);
             ::_exit(98);
           }
           code = waited(child);
         }).join();
         return code;
       }},
      {"huge-environment",
       [](char** words) {
         std::vector<char*> many(20000, own_variable);
         many.push_back(nullptr);
         return ::execve(words[0], words, many.data());
       }},
      {"two-preloads",
       [](char** words) {
         std::string good = std::string("LD_PRELOAD=") + std::getenv("LD_PRELOAD"), none = "LD_PRELOAD=";
         std::string book = std::string("RATION_BOOK=") + std::getenv("RATION_BOOK");
         char* both[] = {good.data(), book.data(), none.data(), nullptr};
         return ::execve(words[0], words, both);
       }},
      {"another-book",
       [](char** words) {
         ::setenv("RATION_BOOK", "/nonexistent", 1);
         return ::execv(words[0], words);
       }},
      {"freed",
       [](char** words) {
         ::setenv("RATION_ALLOW_UNGOVERNED", "1", 1);
         ::unsetenv("LD_PRELOAD");
         char shell[] = "/bin/sh", option[] = "-c";
         std::string line = "unset LD_PRELOAD; exec " + line_of(words);
         char* through[] = {shell, option, line.data(), nullptr};
         return ::execv("/bin/sh", through);
       }},
      // No libc function is called for it, so the guard sees nothing.
      {"by-system-call", [](char** words) { return static_cast<int>(::syscall(SYS_execve, words[0], words, clean)); }},
      // The guard is dropped, the audit library and the book are left.
      {"audit-alone",
       [](char** words) {
         ::unsetenv("LD_PRELOAD");
         return static_cast<int>(::syscall(SYS_execve, words[0], words, environ));
       }},
      {"driver-first",
       [](char** words) {
         const std::string folder = std::getenv("RATION_DRIVER_PATH");
         ::setenv("LD_PRELOAD", (folder + "/libcuda.so.1:" + std::getenv("LD_PRELOAD")).c_str(), 1);
         return static_cast<int>(::syscall(SYS_execve, words[0], words, environ));
       }},
  };
}

int in_a_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    errno = 0;
    const int result = work();
    ::_exit(result == -1 ? 100 + errno : 200);
  }
  return waited(child);
}

int errors() {
  char true_word[] = "true";
  char* words[] = {true_word, nullptr};
  const auto show = [](const std::string& what, int code) { std::printf("%s %d\n", what.c_str(), code); };
  for (const char* path : {"/nonexistent", "/etc", "/etc/passwd", "/etc/passwd/x", "", "./text", "/bin/true"}) {
    show(std::string("execve ") + path, in_a_child([&] { return ::execve(path, words, clean); }));
    show(std::string("execv ") + path, in_a_child([&] { return ::execv(path, words); }));
    show(std::string("execvp ") + path, in_a_child([&] { return ::execvp(path, words); }));
    show(std::string("execvpe ") + path, in_a_child([&] { return ::execvpe(path, words, clean); }));
    show(std::string("execl ") + path, in_a_child([&] { return ::execl(path, "true", nullptr); }));
    show(std::string("execlp ") + path, in_a_child([&] { return ::execlp(path, "true", nullptr); }));
    show(std::string("posix_spawn ") + path, spawned(::posix_spawn, words, clean));
    char* named[] = {const_cast<char*>(path), nullptr};
    show(std::string("posix_spawn of ") + path, spawned(::posix_spawn, named, clean));
    show(std::string("posix_spawnp of ") + path, spawned(::posix_spawnp, named, clean));
  }
  show("execvp no such name", in_a_child([&] { return ::execvp("no-such-program", words); }));
  show("execvp text", in_a_child([&] { return ::setenv("PATH", ".:/bin", 1), ::execvp("text", words); }));
  show("fexecve -1", in_a_child([&] { return ::fexecve(-1, words, clean); }));
  show("execveat flags", in_a_child([&] { return ::execveat(AT_FDCWD, "/bin/true", words, clean, 0x4000000); }));
  show("execveat of no folder", in_a_child([&] { return ::execveat(-1, "true", words, clean, 0); }));
  std::string huge = "HUGE=" + std::string(4 << 20, 'x');
  char* too_much[] = {huge.data(), nullptr};
  show("execve too much", in_a_child([&] { return ::execve("/bin/true", words, too_much); }));
  std::vector<char*> many(1 << 20, own_variable);
  many.push_back(nullptr);
  show("execve too many", in_a_child([&] { return ::execve("/bin/true", words, many.data()); }));
  show("system null", ::system(nullptr));
  show("system", code_of(::system("exit 7")));
  show("popen of no mode", ::popen("true", "x") == nullptr ? errno : 0);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count == 2 && std::strcmp(words[1], "errors") == 0) return errors();
  const auto all = ways();
  const auto way = count == 6 ? all.find(words[1]) : all.end();
  if (way == all.end()) return 96;
  const int code = way->second(words + 2);
  if (code == -1) std::perror(words[1]);
  return code;
}
