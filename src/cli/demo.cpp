// `ration demo`: real processes replay real allocation histories on a simulated card, under limits. A play in three
// acts: everybody fits; one is refused and told why; its limit is raised while it waits.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/holders.hpp"
#include "cli/launch.hpp"
#include "cli/verbs.hpp"

namespace ration::cli {
namespace {

constexpr const char* kNode = "T4:16GiB";

struct Actor {
  const char* name;
  const char* tenant;
  const char* limit;
  const char* trace;
  double seconds;
  const char* on_deny;
};
// Peaks of the traces and one context each stay below 16 GiB together: limits are what keeps it so.
constexpr Actor kCast[] = {{"nlp", "research", "7GiB", "medium_128_training", 22, "fail"},
                           {"serve", "product", "2.5GiB", "medium_512_inference", 22, "fail"},
                           {"notebook", "alice", "3GiB", "medium_1024_inference", 20, "fail"}};
constexpr Actor kVision{"vision", "research", "2.5GiB", "bcrafton_forward_backward", 8, "fail"};

volatile std::sig_atomic_t interrupted = 0;

/// The folder that the demo lives in; gone when it ends, with everybody in it.
class Stage {
 public:
  Stage() {
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    std::string pattern =
        fmt::format("{}/ration-demo-XXXXXX", runtime != nullptr && ::access(runtime, W_OK) == 0 ? runtime : "/tmp");
    if (::mkdtemp(pattern.data()) == nullptr) return;
    folder_ = pattern;
    ::setenv("RATION_RUNTIME_DIR", folder_.c_str(), 1);
    ::setenv("RATION_SIM_DIR", folder_.c_str(), 1);
  }
  ~Stage() {
    for (const auto& [name, pid] : running_) ::kill(pid, SIGTERM);
    for (const auto& [name, pid] : running_) ::waitpid(pid, nullptr, 0);
    std::error_code error;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, error);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  [[nodiscard]] const std::string& folder() const { return folder_; }

  void start(const Actor& actor, const DemoOptions& options, const char* on_deny) {
    std::vector<std::string> words{companion("ration"),
                                   "run",
                                   fmt::format("--sim={}", kNode),
                                   "--limit",
                                   actor.limit,
                                   "--name",
                                   actor.name,
                                   "--tenant",
                                   actor.tenant,
                                   "--on-deny",
                                   on_deny,
                                   "--summary",
                                   "always",
                                   "--",
                                   companion("ration-workload"),
                                   "replay",
                                   actor.trace,
                                   "--duration",
                                   fmt::format("{}ms", static_cast<long>(actor.seconds * 1000 / options.speed))};
    if (options.keep) words.emplace_back("--hold");
    running_.emplace_back(actor.name, start_in_background(words, log(actor.name)));
  }

  /// The exit code, once it has ended.
  std::optional<int> ended(const std::string& name) {
    for (auto entry = running_.begin(); entry != running_.end(); ++entry) {
      int status = 0;
      if (entry->first != name || ::waitpid(entry->second, &status, WNOHANG) == 0) continue;
      running_.erase(entry);
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return std::nullopt;
  }
  [[nodiscard]] bool anybody() const { return !running_.empty(); }

  [[nodiscard]] std::string said(const std::string& name) const {
    std::ifstream file(log(name));
    return {(std::istreambuf_iterator<char>(file)), {}};
  }

 private:
  [[nodiscard]] std::string log(const std::string& name) const { return folder_ + "/" + name + ".log"; }
  std::string folder_;
  std::vector<std::pair<std::string, pid_t>> running_;
};

std::string bar(const ledger::AccountSnapshot& account, Bytes total) {
  constexpr std::uint64_t kWidth = 40;
  const auto cells = [&](Bytes bytes) { return bytes.count() * kWidth / total.count(); };
  std::string text;
  for (std::uint64_t i = 0; i < kWidth; ++i)
    text += i < cells(account.used) ? "█" : i < cells(account.limit) ? "░" : " ";
  return text;
}

/// The state of all workloads; on a terminal it replaces what it drew before.
class Panel {
 public:
  explicit Panel(const Session& session) : session_(session), live_(::isatty(STDOUT_FILENO) != 0) {}
  void draw() {
    if (live_) frame();
  }
  void frame() {
    if (const auto store = session_.store()) {
      erase();
      for (const Holder& holder : holders(*store)) {
        const auto& account = holder.entry();
        fmt::print("  {:<10} {} {:>9} of {:>9}{}\n", holder.book.name, bar(account, account.device_total),
                   session_.size(account.used), session_.size(account.limit),
                   account.denials > 0 ? session_.painted("  refused", 31) : "");
        ++lines_;
      }
      std::fflush(stdout);
    }
    if (!live_) lines_ = 0;
  }
  void say(const std::string& text) {
    erase();
    fmt::print("{}\n", text);
    std::fflush(stdout);
  }

 private:
  void erase() {
    if (live_ && lines_ > 0) fmt::print("\033[{}A\033[J", lines_);
    lines_ = 0;
  }
  const Session& session_;
  bool live_;
  int lines_ = 0;
};

template <typename Condition>
bool until(Panel& panel, double seconds, Condition&& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end && interrupted == 0) {
    if (condition()) return true;
    panel.draw();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the demo's own frame rate
  }
  return false;
}

const ledger::StoredBook* book_named(const std::vector<ledger::StoredBook>& books, const std::string& name) {
  const auto found =
      std::find_if(books.rbegin(), books.rend(), [&](const auto& book) { return book.contents.name == name; });
  return found == books.rend() ? nullptr : &*found;
}

void show_command(Panel& panel, const std::vector<std::string>& words) {
  std::vector<std::string> program = words;
  panel.say(fmt::format("\n$ ration {}", fmt::join(words, " ")));
  program.insert(program.begin(), companion("ration"));
  if (words.front() != "why") program.push_back(fmt::format("--sim={}", kNode));
  fmt::print("{}", output_of(program).text);
  std::fflush(stdout);
}

}  // namespace

Result<int> demo(const Session& outer, const DemoOptions& options) {
  Session session = outer;
  session.simulated = true;
  session.simulated_node = kNode;
  Stage stage;
  if (stage.folder().empty())
    return fail("E1405", "no folder for the demo could be made in /tmp.", "export XDG_RUNTIME_DIR=<a folder of yours>",
                1);
  std::signal(SIGINT, [](int) { interrupted = 1; });
  std::signal(SIGTERM, [](int) { interrupted = 1; });
  Panel panel(session);
  panel.say(
      fmt::format("ration demo: a simulated 16 GiB T4, real processes that replay recorded PyTorch runs. No GPU is "
                  "needed, nothing here is touched.\n"
                  "  look from another terminal:  RATION_RUNTIME_DIR={0} RATION_SIM_DIR={0} ration ps --sim={1}\n",
                  stage.folder(), kNode));

  panel.say("1. Three programs share the card. None was changed; each is held to its limit.");
  for (const Actor& actor : kCast) stage.start(actor, options, "fail");
  until(panel, 6 / options.speed, [] { return false; });
  show_command(panel, {"ps"});

  panel.say("\n2. A fourth one, vision, gets 2.5 GiB. It wants more, so it is refused, and nobody else notices.");
  stage.start(kVision, options, "fail");
  int code = 0;
  const auto vision_ended = [&] {
    const auto ended = stage.ended("vision");
    code = ended.value_or(0);
    return ended.has_value();
  };
  const auto last_words = [&] {
    return fmt::format("   vision ended with exit code {}: {}", code,
                       stage.said("vision").substr(0, stage.said("vision").find('\n')));
  };
  if (until(panel, 30, vision_ended)) panel.say(last_words());
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  const auto books = store->list();
  if (const auto* book = book_named(books, "vision"); book != nullptr && book->contents.denial_count > 0) {
    show_command(panel, {"why", fmt::format("d-{}-{}", book->contents.run_number, book->contents.denial_count)});
  }

  panel.say("\n3. Again, but it waits when refused (--on-deny wait), and its limit is raised while it does.");
  stage.start(kVision, options, "wait");
  const bool waits = until(panel, 30, [&] {
    const auto now = session.store();
    if (!now) return false;
    const auto all = now->list();
    const auto* book = book_named(all, "vision");
    return book != nullptr && book->live && book->contents.waiting > 0;
  });
  if (waits) {
    panel.frame();
    show_command(panel, {"set", "vision", "--limit", "5GiB"});
  }
  if (until(panel, options.keep ? 10 : 30, vision_ended)) panel.say(last_words());

  if (options.keep)
    panel.say("\nEverybody stays (--keep). Ctrl-C ends it.");
  else
    panel.say("\n4. The others finish.");
  int failures = code != 0;
  until(panel, options.keep ? 1e9 : 60, [&] {
    for (const Actor& actor : kCast) {
      if (const auto ended = stage.ended(actor.name)) failures += *ended != 0;
    }
    return !stage.anybody();
  });
  panel.say("\nWhat they needed:");
  for (const char* name : {"nlp", "serve", "notebook", "vision"}) {
    const std::string text = stage.said(name);
    const auto at = text.find("ration: ");
    if (at != std::string::npos) fmt::print("  {:<9} {}\n", name, text.substr(at + 8, text.find('\n', at) - at - 8));
  }
  fmt::print(
      "{} denied in the first try of vision, none else. Next: ration run --sim --limit 1GiB -- ration-workload grab\n",
      waits ? "1" : "n/a (vision did not wait)");
  return interrupted != 0 && !options.keep ? 130 : failures == 0 && waits ? 0 : 1;
}

}  // namespace ration::cli
