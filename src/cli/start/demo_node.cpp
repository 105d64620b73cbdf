#include "cli/start/demo_node.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/whole_file.hpp"
#include "cli/start/launch.hpp"

extern char** environ;

namespace ration::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kFirstPort = 7077, kPortsTried = 100;
constexpr auto kStartTime = 30s;        // longest time that the daemon takes to start
constexpr auto kEndTime = 3s;           // longest time that processes take to end after SIGTERM
constexpr const char* kMark = "/demo";  // file with the node's description, its name and its scenario
constexpr const char* kPrefix = "ration-demo-";

std::string base_folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && ::access(runtime, W_OK) == 0 ? runtime : "/tmp";
}

/// Returns the living processes of a group, without the caller.
std::vector<pid_t> others_in_group(pid_t group) {
  std::vector<pid_t> found;
  std::error_code error;
  for (fs::directory_iterator each("/proc", error), end; !error && each != end; each.increment(error)) {
    const pid_t pid = std::atoi(each->path().filename().c_str());
    if (pid <= 0 || pid == ::getpid()) continue;
    const std::string text = read_whole(each->path() / "stat").value_or("");
    const std::size_t name_end = text.rfind(')');
    char state = 0;
    int parent = 0, its_group = 0;
    if (name_end == std::string::npos ||
        std::sscanf(text.c_str() + name_end + 1, " %c %d %d", &state, &parent, &its_group) != 3)
      continue;
    if (its_group == group && state != 'Z' && state != 'X') found.push_back(pid);
  }
  return found;
}

/// Ends every other process of the group, and removes the folder.
void clean_up(pid_t group, const std::string& folder) {
  ::kill(-group, SIGTERM);
  ::kill(-group, SIGCONT);
  const auto end = std::chrono::steady_clock::now() + kEndTime;
  for (auto left = others_in_group(group); !left.empty(); left = others_in_group(group)) {
    if (std::chrono::steady_clock::now() > end)
      for (const pid_t pid : left) ::kill(pid, SIGKILL);
    std::this_thread::sleep_for(10ms);
  }
  // Repeats the removal, which fails if a verb makes a file meanwhile.
  std::error_code error;
  constexpr int kTries = 100;
  for (int tries = 0; tries < kTries && fs::exists(folder, error); ++tries) {
    fs::remove_all(folder, error);
    if (error) std::this_thread::sleep_for(10ms);
  }
}

/// Runs the sweeper, the first member of the process group that everything else joins.
[[noreturn]] void sweep(int owner, const std::string& folder) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
  ::setpgid(0, 0);
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, stream);
  char letter = 0;
  while (::read(owner, &letter, 1) < 0 && errno == EINTR) {
  }
  clean_up(::getpid(), folder);
  ::_exit(0);
}

bool is_free(int port) {
  const FileDescriptor probe{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const int yes = 1;  // allows a port whose connections are still closing, as the daemon does
  ::setsockopt(probe.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

/// Removes the variables that are meant for other runs.
void clear_environment() {
  std::vector<std::string> names;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string entry = *each;
    for (const char* prefix : {"RATION_", "CUDA_", "NVIDIA_VISIBLE_DEVICES"})
      if (entry.rfind(prefix, 0) == 0) names.push_back(entry.substr(0, entry.find('=')));
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

void enter(const std::string& folder, const std::string& node) {
  clear_environment();
  ::setenv("RATION_RUNTIME_DIR", folder.c_str(), 1);
  ::setenv("RATION_SIM_DIR", folder.c_str(), 1);
  ::setenv("RATION_CONFIG", (folder + "/ration.toml").c_str(), 1);
  ::setenv("RATION_SIM", node.c_str(), 1);
}

}  // namespace

Result<std::unique_ptr<DemoNode>> DemoNode::open(const Scenario& scenario) {
  std::unique_ptr<DemoNode> node(new DemoNode);
  RATION_TRY(node->make_folder(scenario));
  RATION_TRY(node->start_sweeper());
  enter(node->folder_, node->node_);
  RATION_TRY(node->start_daemon());
  return node;
}

std::string DemoNode::name() { return fmt::format("demo:{}", ::getpid()); }

Result<void> DemoNode::make_folder(const Scenario& scenario) {
  std::string pattern = base_folder() + "/" + kPrefix + "XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr)
    return fail("E1405", fmt::format("no folder for the demo could be made in {}.", base_folder()),
                "export XDG_RUNTIME_DIR=<a folder of yours>", 1);
  folder_ = pattern;
  node_ = scenario.node;
  std::ofstream(folder_ + "/ration.toml") << scenario.configuration;
  std::ofstream(folder_ + kMark) << node_ << "\n" << name() << "\n" << scenario.name << "\n";
  marked_ = FileDescriptor(::open((folder_ + kMark).c_str(), O_RDONLY | O_CLOEXEC));
  ::flock(marked_.get(), LOCK_EX);
  return {};
}

Result<void> DemoNode::start_sweeper() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) == 0) sweeper_ = ::fork();
  if (sweeper_ == 0) {
    ::close(ends[1]);
    sweep(ends[0], folder_);
  }
  if (sweeper_ < 0) {
    std::error_code error;
    fs::remove_all(folder_, error);
    return fail("E1443", "the demo could not start a process.", "ulimit -u   shows how many this user may have", 1);
  }
  ::setpgid(sweeper_, sweeper_);
  ::close(ends[0]);
  alive_ = FileDescriptor(ends[1]);
  return {};
}

Result<void> DemoNode::start_daemon() {
  for (port_ = kFirstPort; !is_free(port_) && port_ < kFirstPort + kPortsTried;) ++port_;
  daemon_ = start_in_background({companion("ration"), "serve", "--sim=" + node_, "--state", folder_ + "/state",
                                 "--listen", fmt::format("127.0.0.1:{}", port_)},
                                log("daemon"), sweeper_);
  const auto end = std::chrono::steady_clock::now() + kStartTime;
  int status = 0;
  while (std::chrono::steady_clock::now() < end && ::waitpid(daemon_, &status, WNOHANG) == 0) {
    constexpr std::string_view kLink = "dashboard: ";  // beginning of a line that the daemon prints
    const std::string greeting = text_of("daemon");
    const std::size_t link = greeting.find(kLink);
    if (link != std::string::npos && greeting.find('\n', link) != std::string::npos) {
      const std::size_t begin = link + kLink.size();
      link_ = greeting.substr(begin, greeting.find(' ', begin) - begin);
      std::ifstream(folder_ + "/state/token") >> token_;
      return {};
    }
    std::this_thread::sleep_for(10ms);
  }
  return fail("E1443", fmt::format("the demo's daemon did not start: {}", last_words("daemon")), "ration doctor --sim",
              1);
}

DemoNode::~DemoNode() {
  alive_ = FileDescriptor();
  if (sweeper_ <= 0) return;
  siginfo_t how{};  // leaves the process unreaped, so that its pid stays taken
  while (::waitid(P_PID, static_cast<id_t>(sweeper_), &how, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  if (how.si_code != CLD_EXITED) clean_up(sweeper_, folder_);
  ::waitpid(sweeper_, nullptr, 0);
}

void DemoNode::start(const ScenarioProgram& program, double speed, unsigned seed) {
  std::vector<std::string> words{companion("ration"), "run",       "--sim=" + node_, "--name",
                                 program.name,        "--summary", "always"};
  const auto option = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  option("--tenant", program.tenant);
  option("--gpu", program.gpu);
  option("--limit", program.limit);
  option("--guarantee", program.guarantee);
  option("--on-deny", program.on_deny);
  for (const std::string& label : program.labels) option("--label", label);
  words.insert(words.end(), {"--", companion("ration-workload"), program.trace.empty() ? "steps" : "replay"});
  option("--via", program.via);
  if (!program.trace.empty()) {
    words.push_back(program.trace);
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(program.over).count();
    if (milliseconds > 0) option("--duration", fmt::format("{}ms", milliseconds));
    option("--loops", std::to_string(program.loops));
  } else {
    words.insert(words.end(), program.steps.begin(), program.steps.end());
    option("--block", program.block);
    option("--refused", program.refused);
    option("--speed", fmt::format("{}", speed));
    option("--seed", std::to_string(seed));
    if (program.repeat) words.emplace_back("--repeat");
  }
  running_[program.name] = start_in_background(words, log(program.name), sweeper_);
}

std::vector<std::pair<std::string, int>> DemoNode::take_ended() {
  std::vector<std::pair<std::string, int>> ended;
  for (auto each = running_.begin(); each != running_.end();) {
    int status = 0;
    if (each->second > 0 && ::waitpid(each->second, &status, WNOHANG) == 0) {
      ++each;
      continue;
    }
    ended.emplace_back(each->first, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    each = running_.erase(each);
  }
  return ended;
}

std::string DemoNode::text_of(const std::string& name) const { return read_whole(log(name)).value_or(""); }

std::string DemoNode::last_words(const std::string& name) const {
  std::string text = text_of(name);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

namespace {

struct RunningDemo {
  std::string folder, node, name, scenario;
};

/// Returns the demo of this user that runs in that folder; absent if none does.
std::optional<RunningDemo> demo_in(const fs::path& folder) {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::getuid())
    return std::nullopt;
  const FileDescriptor mark{::open((folder.string() + kMark).c_str(), O_RDONLY | O_CLOEXEC)};
  if (!mark || ::flock(mark.get(), LOCK_SH | LOCK_NB) == 0) return std::nullopt;
  RunningDemo demo;
  demo.folder = folder;
  std::ifstream file(folder.string() + kMark);
  std::getline(file, demo.node);
  std::getline(file, demo.name);
  std::getline(file, demo.scenario);
  return demo;
}

std::vector<RunningDemo> running_demos() {
  std::vector<RunningDemo> found;
  std::error_code error;
  for (fs::directory_iterator each(base_folder(), error), end; !error && each != end; each.increment(error)) {
    if (each->path().filename().string().rfind(kPrefix, 0) != 0) continue;
    if (auto demo = demo_in(each->path()); demo) found.push_back(std::move(*demo));
  }
  std::sort(found.begin(), found.end(), [](const auto& one, const auto& two) { return one.name < two.name; });
  return found;
}

std::string listed(const std::vector<RunningDemo>& demos) {
  std::vector<std::string> parts;
  for (const RunningDemo& demo : demos) parts.push_back(fmt::format("{} ({})", demo.name, demo.scenario));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::optional<std::string> enclosing_demo() {
  const char* here = std::getenv("RATION_RUNTIME_DIR");
  const auto demo = here != nullptr ? demo_in(here) : std::nullopt;
  return demo ? std::optional(demo->name) : std::nullopt;
}

bool names_demo(const std::string& node) { return node == "demo" || node.rfind("demo:", 0) == 0; }

Result<void> join_demo(Session& session) {
  const std::string wanted = session.simulated_node == "demo" ? "" : session.simulated_node;
  const char* here = std::getenv("RATION_RUNTIME_DIR");
  std::optional<RunningDemo> demo;
  if (here != nullptr) demo = demo_in(here);
  if (!demo || (!wanted.empty() && demo->name != wanted)) {
    std::vector<RunningDemo> all = running_demos();
    if (all.empty()) return fail("E1444", "this user runs no demo.", "ration demo   in another terminal", 3);
    const std::string others = listed(all);
    if (!wanted.empty()) std::erase_if(all, [&](const RunningDemo& each) { return each.name != wanted; });
    if (all.empty())
      return fail("E1444", fmt::format("this user runs no demo {}; running: {}.", wanted, others),
                  fmt::format("--sim={}", all.front().name), 3);
    if (all.size() > 1)
      return fail("E1445", fmt::format("this user runs {} demos: {}.", all.size(), others),
                  fmt::format("--sim={}   or another of them", all.front().name), 3);
    demo = std::move(all.front());
  }
  enter(demo->folder, demo->node);
  session.simulated_node = demo->node;
  return {};
}

}  // namespace ration::cli
