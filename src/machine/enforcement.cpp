#include "machine/enforcement.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/file.hpp"
#include "base/strings.hpp"
#include "base/system_calls.hpp"
#include "machine/elf_file.hpp"

extern char** environ;

namespace ration::machine {
namespace {

bool can_start(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

/// Returns the file that execvp(3) would start; empty if none is found.
std::string in_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* variable = std::getenv("PATH");
  const std::string path = variable != nullptr ? variable : "/bin:/usr/bin";
  if (program.empty()) return "";
  for (const std::string_view folder : split(path, ':'))
    if (std::string candidate = std::string(folder.empty() ? "." : folder) + "/" + program; can_start(candidate))
      return candidate;
  return "";
}

std::string name_of(const std::string& path) { return std::filesystem::path(path).filename(); }

/// A program through which other programs start without this process's environment.
struct Outside {
  const char* name;
  const char* reason;
  const char* instead;
  const char* verb = nullptr;  ///< the argument that makes it do so; null if it always does so
};
constexpr const char* kOwnEnvironment = "it starts programs with a new environment, without the guard";
constexpr const char* kContainer = "programs in its container inherit no guard from here";
constexpr const char* kSandbox = "it runs programs in a sandbox without the guard";
constexpr const char* kHost = "the program starts on another host, or is started by a service on this host";
constexpr const char* kJob = "a scheduler starts the program, which inherits no guard from here";
constexpr const char* kServer =
    "a server that is already running can start the program, which then inherits no guard from here";
constexpr const char* kNamespace = "the program runs in other namespaces, where the guard might be missing";
constexpr const char* kInside = "ration run -- …   inside, with ration installed there as well";
constexpr Outside kOutside[] = {
#define RATION_LAUNCHER(name, word, reason, instead) {name, reason, instead, word},
#include "base/launchers.inc"
#undef RATION_LAUNCHER
};

/// Returns the value of option `letter` among the words before the first non-option; the value may be attached or the
/// next word. `with_value` lists the letters that take a value. Returns nothing if the option is not given.
std::optional<std::string> option_of(const std::vector<std::string>& words, char letter, std::string_view with_value) {
  std::optional<std::string> found;
  for (std::size_t at = 1; at < words.size() && words[at].size() > 1 && words[at].front() == '-'; ++at) {
    const std::string& word = words[at];
    if (word == "--") break;
    for (std::size_t i = 1; i < word.size(); ++i) {
      const bool takes = with_value.find(word[i]) != std::string_view::npos;
      std::string value;
      if (takes) value = i + 1 < word.size() ? word.substr(i + 1) : ++at < words.size() ? words[at] : "";
      if (word[i] == letter) found = value;
      if (takes) break;
    }
  }
  return found;
}

std::string variable_of(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Returns true if a server answers at the socket that tmux would use with these arguments. Otherwise tmux starts a
/// server, which inherits this environment.
bool asks_a_tmux_server(const std::vector<std::string>& words) {
  constexpr std::string_view kWithValue = "cfLST";
  const std::string around = variable_of("TMUX");
  const auto label = option_of(words, 'L', kWithValue);
  std::string path = option_of(words, 'S', kWithValue).value_or("");
  if (path.empty() && !label) path = around.substr(0, around.find(','));
  if (path.empty()) {
    const std::string folder = variable_of("TMUX_TMPDIR");
    path = fmt::format("{}/tmux-{}/{}", folder.empty() ? "/tmp" : folder, ::getuid(), label.value_or("default"));
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return true;  // the path cannot be used, so assume a server
  path.copy(address.sun_path, path.size());
  const FileDescriptor socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
         (errno != ENOENT && errno != ECONNREFUSED && errno != ENOTDIR);
}

/// Returns true if screen contacts a running session: because of an option, or because it runs inside one. Otherwise
/// screen starts a session of its own, which inherits this environment.
bool asks_a_screen(const std::vector<std::string>& words) {
  constexpr std::string_view kWithValue = "cehpsSTt";
  for (const char letter : {'r', 'R', 'x', 'X'})
    if (option_of(words, letter, kWithValue)) return true;
  return !variable_of("STY").empty() && !option_of(words, 'm', kWithValue) && !option_of(words, 'S', kWithValue);
}

const Outside* outside_of(const std::string& path, const std::vector<std::string>& words) {
  std::error_code error;
  const std::string typed = name_of(path), real = name_of(std::filesystem::canonical(path, error));
  const auto found = std::find_if(std::begin(kOutside), std::end(kOutside),
                                  [&](const Outside& each) { return typed == each.name || real == each.name; });
  if (found == std::end(kOutside)) return nullptr;
  const std::string_view name = found->name;
  if (name == "tmux" && !asks_a_tmux_server(words)) return nullptr;
  if (name == "screen" && !asks_a_screen(words)) return nullptr;
  if (found->verb != nullptr && std::find(words.begin(), words.end(), found->verb) == words.end()) return nullptr;
  return found;
}

/// The variable that stops the guard from restoring itself in an environment that a launcher cleared.
constexpr const char* kAllowUngoverned = "RATION_ALLOW_UNGOVERNED";

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

bool is_assignment(const std::string& word) { return word.find('=', 1) != std::string::npos; }

/// A program that starts the program named in its arguments, and the form of the arguments before that name.
struct Launcher {
  const char* name;
  const char* with_value;                     ///< letters of options that take a value
  std::vector<std::string_view> long_values;  ///< names of long options that take a value
  std::vector<std::string_view> long_flags;   ///< long options without a value that drop the guard
  int before;                                 ///< non-options before the program
};

const Launcher* launcher_of(const std::string& path) {
  static const std::vector<Launcher> all{
      {"env", "CSua", {"chdir", "split-string", "unset", "argv0"}, {"ignore-environment"}, 0},
      {"timeout", "ks", {"kill-after", "signal"}, {}, 1},
      {"nice", "n", {"adjustment"}, {}, 0},
      {"ionice", "cnpPu", {"class", "classdata", "pid", "pgid", "uid"}, {}, 0},
      {"chrt", "TPD", {"sched-runtime", "sched-period", "sched-deadline"}, {}, 1},
      {"taskset", "", {}, {}, 1},
      {"numactl", "iwNCPmp", {"interleave", "cpunodebind", "physcpubind", "membind", "preferred"}, {}, 0},
      {"nohup", "", {}, {}, 0},
      {"setsid", "", {}, {}, 0},
      {"stdbuf", "ioe", {"input", "output", "error"}, {}, 0},
      {"time", "fo", {"format", "output"}, {}, 0},
      {"setpriv",
       "",
       {"ruid", "euid", "reuid", "rgid", "egid", "regid", "groups", "inh-caps", "ambient-caps", "bounding-set",
        "securebits", "pdeathsig", "selinux-label", "apparmor-profile"},
       {"reset-env"},
       0},
  };
  const std::string name = name_of(path);
  const auto found = std::find_if(all.begin(), all.end(), [&](const Launcher& each) { return name == each.name; });
  return found == all.end() ? nullptr : &*found;
}

/// The program that a launcher will start. `drops_guard` is true if the launcher removes the guard from this program's
/// environment.
struct Launched {
  std::vector<std::string> words;
  bool drops_guard = false;
};

bool is_guards(const std::string& variable) { return variable == "LD_PRELOAD" || variable == "RATION_BOOK"; }

/// Reads arguments as getopt_long(3) does: several letters in one word, values attached or in the next word, long names
/// abbreviated.
class LauncherWords {
 public:
  LauncherWords(const Launcher& launcher, std::vector<std::string> words)
      : launcher_(launcher), is_env_(std::string_view(launcher.name) == "env"), words_(std::move(words)) {}

  Launched read() {
    for (; at_ < words_.size(); ++at_) {
      const std::string word = words_[at_];
      if (word == "--") {
        ++at_;
        break;
      }
      if (word == "-" && is_env_)
        result_.drops_guard = true;
      else if (word.starts_with("--"))
        long_option(word.substr(2));
      else if (word.size() > 1 && word.front() == '-')
        letters(word.substr(1));
      else
        break;
    }
    at_ += static_cast<std::size_t>(launcher_.before);
    for (; is_env_ && at_ < words_.size() && is_assignment(words_[at_]); ++at_)
      if (is_guards(words_[at_].substr(0, words_[at_].find('=')))) result_.drops_guard = true;
    if (at_ < words_.size()) result_.words.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
    return result_;
  }

 private:
  std::string next() { return ++at_ < words_.size() ? words_[at_] : ""; }

  void letters(const std::string& cluster) {
    for (std::size_t i = 0; i < cluster.size(); ++i) {
      const char letter = cluster[i];
      if (std::string_view(launcher_.with_value).find(letter) == std::string_view::npos) {
        if (is_env_ && letter == 'i') result_.drops_guard = true;
        continue;
      }
      const std::string rest = cluster.substr(i + 1);
      const std::string value = rest.empty() ? next() : rest;
      if (is_env_ && letter == 'S') split(value);
      if (is_env_ && letter == 'u' && is_guards(value)) result_.drops_guard = true;
      return;
    }
  }

  void long_option(const std::string& typed) {
    const std::string name = typed.substr(0, typed.find('='));
    const auto among = [&](const std::vector<std::string_view>& options) {
      const auto found = std::find_if(options.begin(), options.end(),
                                      [&](std::string_view each) { return !name.empty() && each.starts_with(name); });
      return found == options.end() ? std::string_view{} : *found;
    };
    if (!among(launcher_.long_flags).empty()) result_.drops_guard = true;
    const std::string_view option = among(launcher_.long_values);
    if (option.empty()) return;
    const std::string value = typed.size() > name.size() ? typed.substr(name.size() + 1) : next();
    if (option == "split-string") split(value);
    if (option == "unset" && is_guards(value)) result_.drops_guard = true;
  }

  /// Replaces the option `env -S` by the words of its argument.
  void split(const std::string& text) {
    const std::vector<std::string> more = words_of(text);
    const auto place = words_.begin() + static_cast<std::ptrdiff_t>(std::min(at_ + 1, words_.size()));
    words_.insert(place, more.begin(), more.end());
  }

  const Launcher& launcher_;
  bool is_env_;
  std::vector<std::string> words_;
  std::size_t at_ = 1;
  Launched result_;
};

bool is_loader(const std::string& path) {
  const std::string name = name_of(path);
  return (name.starts_with("ld-linux") || name.starts_with("ld-2.") || name == "ld.so") &&
         name.find(".so") != std::string::npos;
}

/// Returns the words of the command that a dynamic loader will start, after the loader's own options.
std::vector<std::string> after_loader(const std::vector<std::string>& words) {
  constexpr const char* kWithValue[] = {"--library-path",     "--inhibit-rpath", "--audit",
                                        "--preload",          "--argv0",         "--glibc-hwcaps-prepend",
                                        "--glibc-hwcaps-mask"};
  std::size_t at = 1;
  while (at < words.size() && words[at].starts_with("--")) {
    const bool has_value = std::find(std::begin(kWithValue), std::end(kWithValue), words[at]) != std::end(kWithValue);
    at += has_value ? 2 : 1;
  }
  return {words.begin() + static_cast<std::ptrdiff_t>(std::min(at, words.size())), words.end()};
}

/// Returns why the kernel starts the program in the loader's secure mode, which preloads nothing; empty if the kernel
/// uses the normal mode.
std::string why_secure(const std::string& path) {
  struct stat status {};
  struct statvfs system {};
  if (::stat(path.c_str(), &status) != 0) return "";
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return "";
  if (::statvfs(path.c_str(), &system) == 0 && (system.f_flag & ST_NOSUID) != 0) return "";
  const bool other_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != ::getuid();
  const bool other_group =
      (status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 && status.st_gid != ::getgid();
  if (other_user || other_group)
    return "it is set-uid or set-gid, and the dynamic linker preloads nothing into such programs";
  if (::geteuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0)
    return "it has file capabilities, and the dynamic linker preloads nothing into such programs";
  return "";
}

/// The variable with which glibc's loader lists what it would load and runs nothing; other loaders ignore it.
constexpr const char* kOnlyList = "LD_TRACE_LOADED_OBJECTS";

/// Returns the loader's list for `program` with these variables; absent if the loader could not be run.
std::optional<std::string> listed_by(const std::string& loader, const std::string& program,
                                     std::map<std::string, std::string> sets) {
  sets[kOnlyList] = "1";
  sets.erase("LD_AUDIT");  // otherwise an audit library's code would run
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string variable = *each;
    const std::string name = variable.substr(0, variable.find('='));
    if (!sets.contains(name) && name != "LD_AUDIT") variables.push_back(variable);
  }
  for (const auto& [name, value] : sets) variables.push_back(name + "=" + value);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  char* words[] = {const_cast<char*>(loader.c_str()), const_cast<char*>(program.c_str()), nullptr};

  const FileDescriptor output{memory_file("ration-loader")};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output.get(), STDERR_FILENO);
  pid_t child = -1;
  const int failed = ::posix_spawn(&child, loader.c_str(), &actions, nullptr, words, environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return std::nullopt;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::string text;
  char piece[4096];
  ::lseek(output.get(), 0, SEEK_SET);
  for (ssize_t length = 0; (length = ::read(output.get(), piece, sizeof piece)) > 0;)
    text.append(piece, static_cast<std::size_t>(length));
  return text;
}

/// Returns the line of `text` that contains both words; empty if there is none.
std::string line_with(const std::string& text, const std::string& one, const std::string& other) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(one) != std::string::npos && line.find(other) != std::string::npos) return line;
  }
  return "";
}

/// Returns why the program's own loader would not preload the files in LD_PRELOAD; empty if it would.
std::string why_not_preloaded(const std::string& loader, const std::string& program,
                              const std::map<std::string, std::string>& sets) {
  const auto preload = sets.find("LD_PRELOAD");
  if (preload == sets.end()) return "";
  if (!has_text(loader, "TRACE_LOADED_OBJECTS"))
    return fmt::format("its dynamic linker {} is not glibc's, for which the guard is built", loader);
  const auto listed = listed_by(loader, program, sets);
  if (!listed) return fmt::format("its dynamic linker {} cannot be started", loader);
  for (const char* library : {"/libcuda.so.1", "/libnvidia-ml.so.1"}) {
    std::string entry;
    for (const std::string_view each : split(preload->second, ':'))
      if (entry.empty() && each.ends_with(library)) entry = each;
    if (entry.empty()) continue;
    if (const std::string missing = line_with(*listed, "not found", entry); !missing.empty())
      return fmt::format("its C library is too old for the guard ({})",
                         missing.substr(missing.find_first_not_of("\t ")));
    if (line_with(*listed, entry, " (0x").empty())
      return fmt::format("its dynamic linker {} does not load the guard", loader);
  }
  return "";
}

/// Examines a program's file with its loader. `loader` is the loader on the command line; empty for the file's own.
Enforcement examine_file(const std::string& path, const std::string& loader,
                         const std::map<std::string, std::string>& sets) {
  const auto nothing = [&](std::string reason, std::string instead = "") {
    return Enforcement{path, Hold::kNothing, std::move(reason), std::move(instead)};
  };
  if (std::string secure = loader.empty() ? why_secure(path) : ""; !secure.empty()) return nothing(std::move(secure));
  const auto elf = read_elf(path);
  if (!elf) return nothing("it cannot be read");
  if (!elf->problem.empty()) return nothing(elf->problem);
  const std::string& own = loader.empty() ? elf->interpreter : loader;
  if (own.empty()) {
    return {path, Hold::kChildren,
            "it is statically linked and loads no driver: the limit applies to the programs that it starts", ""};
  }
  if (own.find("musl") != std::string::npos) return nothing("it uses the musl C library; the guard is built for glibc");
  if (std::string refused = why_not_preloaded(own, path, sets); !refused.empty()) return nothing(std::move(refused));
  return {path, Hold::kProgram, "", ""};
}

}  // namespace

std::optional<Enforcement> examine_program(const std::vector<std::string>& typed,
                                           const std::map<std::string, std::string>& sets) {
  std::vector<std::string> words = typed;
  std::string loader;
  for (int depth = 0; depth < 64 && !words.empty(); ++depth) {
    const std::string path = loader.empty() ? in_path(words.front()) : words.front();
    if (const Outside* outside = outside_of(path, words); outside != nullptr && can_start(path))
      return Enforcement{path, Hold::kNothing, outside->reason, outside->instead};
    // Returns nothing for a file that cannot be started. A loader on the command line also starts files that are not
    // executable.
    std::error_code error;
    if (loader.empty() ? !can_start(path) : !std::filesystem::is_regular_file(path, error)) return std::nullopt;
    if (const Launcher* launcher = launcher_of(path); launcher != nullptr && words.size() > 1) {
      Launched launched = LauncherWords(*launcher, words).read();
      if (launched.words.empty()) return examine_file(path, loader, sets);  // the launcher itself is the program
      // A guard in the launcher restores itself in the program's environment, unless kAllowUngoverned is set.
      if (launched.drops_guard &&
          (sets.contains(kAllowUngoverned) || examine_file(path, loader, sets).hold != Hold::kProgram))
        return Enforcement{path, Hold::kNothing,
                           fmt::format("{} removes the guard from the program's environment", launcher->name),
                           fmt::format("Type ration after {0}: {0} … ration run …", launcher->name)};
      words = std::move(launched.words);
      continue;
    }
    if (is_loader(path) && words.size() > 1) {
      loader = path;
      words = after_loader(words);
      continue;
    }
    const auto line = script_interpreter(path);
    if (!line) return examine_file(path, loader, sets);
    std::vector<std::string> interpreter = words_of(*line);
    if (interpreter.empty()) return std::nullopt;
    interpreter.push_back(path);
    words = std::move(interpreter);
  }
  return std::nullopt;
}

}  // namespace ration::machine
