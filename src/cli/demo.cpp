// `ration demo`: a scenario played for real on simulated GPUs: a daemon, programs of several tenants, and what happens
// to them as it happens.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <map>
#include <set>
#include <thread>

#include "cli/demo_node.hpp"
#include "cli/launch.hpp"
#include "cli/node_client.hpp"
#include "cli/verbs.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

volatile std::sig_atomic_t interrupted = 0;

// What is worth a line: starts are told by the moments, and changes of a limit by the command that makes them or here.
constexpr const char* kTold =
    "denied,waited,resized,rebalanced,suspended,resumed,trimmed,queued,granted,violation,alert,ended";
constexpr auto kBeat = 50ms;
constexpr auto kTriedAgain = 200ms;
constexpr auto kQuiet = 8s;  // about the same thing again

std::string devices_text(const json& snapshot) {
  std::map<std::string, int> counts;
  for (const json& device : snapshot.at("devices")) ++counts[device.at("name").get<std::string>()];
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(fmt::format("{} simulated {}", count, name));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string moments_text(const Scenario& scenario) {
  std::vector<std::string> parts;
  for (const ScenarioMoment& moment : scenario.moments) {
    const double seconds = std::chrono::duration<double>(moment.at).count();
    parts.push_back(seconds <= 0 ? moment.text
                                 : fmt::format("in {:g} s: {}", std::round(seconds * 10) / 10, moment.text));
  }
  return fmt::format("{}", fmt::join(parts, "\n  "));
}

/// A command as it can be typed in another terminal.
std::vector<std::string> of_demo(std::vector<std::string> words) {
  words.emplace_back("--sim=" + DemoNode::name());
  return words;
}

class Play {
 public:
  Play(const Session& session, const DemoOptions& options, const Scenario& scenario, DemoNode& node, NodeClient& daemon)
      : session_(session), options_(options), scenario_(scenario), node_(node), daemon_(daemon) {}

  void introduce() {
    const auto snapshot = daemon_.get("/api/v1/snapshot");
    std::map<std::string, int> tenants;
    for (const ScenarioProgram& program : scenario_.programs) ++tenants[program.tenant];
    say("ration demo: {}, {}, {}, seed {} - nothing on this machine is touched, no GPU is needed",
        snapshot ? devices_text(*snapshot) : scenario_.node, counted(tenants.size(), "tenant"),
        counted(scenario_.programs.size(), "program"), options_.seed);
    say("  {}: {}", scenario_.name, scenario_.about);
    say("  dashboard  {}", node_.link());
    say("             (that link works once; to change limits in another browser: token {})", node_.token());
    say("  terminal   ration ps --sim={}", DemoNode::name());
    if (!scenario_.moments.empty()) say("  {}", moments_text(scenario_));
    if (!scenario_.try_this.empty()) say("  try:  {} --sim={}", scenario_.try_this, DemoNode::name());
    say("^C to stop (speed ×{:g}, --speed 10, --scenario {})\n", options_.speed, fmt::join(scenario_names(), "|"));
  }

  /// Until it is over, or somebody has seen enough.
  int play(std::optional<Nanoseconds> end) {
    begun_ = Clock::now();
    int outcome = 0;
    while (interrupted == 0 && (!end || elapsed() < *end)) {
      while (next_program_ < scenario_.programs.size() && scenario_.programs[next_program_].start <= elapsed()) {
        node_.start(scenario_.programs[next_program_], options_.speed,
                    options_.seed + static_cast<unsigned>(next_program_));
        ++next_program_;
      }
      for (std::size_t number = 0; number < scenario_.commands.size(); ++number) step(number);
      tell_events();
      note_who_waits();
      for (const auto& [name, code] : node_.take_ended()) {
        if (code < 125 || code > 127) continue;  // its own end is an event
        say("{}  {} could not be run: {}", clock_text(), name, node_.last_words(name));
        outcome = 1;
      }
      std::this_thread::sleep_for(kBeat);
    }
    return outcome;
  }

  void show(const std::vector<std::string>& words) {
    say("\n$ ration {}", fmt::join(of_demo(words), " "));
    std::vector<std::string> program = of_demo(words);
    program.insert(program.begin(), companion("ration"));
    fmt::print("{}", output_of(program).text);
    std::fflush(stdout);
  }

 private:
  template <typename... Arguments>
  void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::print(format, std::forward<Arguments>(arguments)...);
    fmt::print("\n");
    std::fflush(stdout);
  }

  [[nodiscard]] Nanoseconds elapsed() const { return Clock::now() - begun_; }
  [[nodiscard]] std::string clock_text() const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(elapsed()).count();
    return fmt::format("{:02}:{:02}", seconds / 60, seconds % 60);
  }

  /// One line of a command that is due. Of one that answers somebody's waiting each line has to succeed before the
  /// next.
  void step(std::size_t number) {
    const ScenarioCommand& command = scenario_.commands[number];
    std::size_t& line = next_line_[number];
    if (command.waits.empty()) {
      while (command.at <= elapsed() && line < command.lines.size()) (void)type(command.lines[line++], true);
      return;
    }
    const bool waits = waiting_.count(command.waits) != 0;
    if (line == command.lines.size() && !waits) line = 0;
    const bool due = waits && line < command.lines.size() && Clock::now() >= next_try_;
    if (!due) return;
    next_try_ = Clock::now() + kTriedAgain;
    if (type(command.lines[line], false)) ++line, next_try_ = Clock::now();
  }

  /// True: it succeeded. Tries that fail are shown only where there is no other.
  bool type(const std::vector<std::string>& words, bool only_try) {
    std::vector<std::string> program = of_demo(words);
    program.insert(program.begin(), companion("ration"));
    const Output output = output_of(program);
    const bool done = output.exit_code == 0;
    if (done || only_try) say("{}  $ ration {}", clock_text(), fmt::join(of_demo(words), " "));
    if (!done && only_try) fmt::print("{}", output.text);
    return done;
  }

  void note_who_waits() {
    const auto& commands = scenario_.commands;
    if (std::all_of(commands.begin(), commands.end(), [](const auto& each) { return each.waits.empty(); })) return;
    waiting_.clear();
    const auto rows = daemon_.get("/api/v1/workloads");
    if (!rows) return;
    for (const json& row : *rows)
      if (row.contains("state") && row["state"] == "waiting") waiting_.insert(row.at("workload"));
  }

  void tell_events() {
    const auto events = daemon_.get(fmt::format("/api/v1/events?since={}&limit=200&type={}", last_event_, kTold));
    if (!events) return;
    for (const json& event : *events) {
      last_event_ = std::max(last_event_, event.at("id").get<std::int64_t>());
      const std::string type = event.at("type");
      const std::string about =
          type + "/" + (event.at("workload").is_string() ? event["workload"].get<std::string>() : "");
      const auto told = told_.find(about);
      if (told != told_.end() && Clock::now() - told->second < kQuiet / options_.speed) continue;
      told_[about] = Clock::now();
      const bool refusal = type == "denied";
      say("{}  {:<10} {}", clock_text(), refusal ? session_.painted("DENIED", 31) + "    " : type,
          event.at("text").get<std::string>());
      if (refusal && !explained_ && event.at("denial").is_string()) {
        explained_ = true;
        show({"why", event["denial"].get<std::string>()});
        say("");
      }
    }
  }

  const Session& session_;
  const DemoOptions& options_;
  const Scenario& scenario_;
  DemoNode& node_;
  NodeClient& daemon_;
  Clock::time_point begun_;
  Clock::time_point next_try_;
  std::size_t next_program_ = 0;
  std::map<std::size_t, std::size_t> next_line_;  ///< of each command
  std::set<std::string> waiting_;
  std::int64_t last_event_ = 0;
  std::map<std::string, Clock::time_point> told_;
  bool explained_ = false;
};

}  // namespace

Result<int> demo(const Session& outer, const DemoOptions& options) {
  const auto scenario = read_scenario(options.scenario, options.speed);
  if (!scenario) return tl::unexpected(scenario.error());
  std::optional<Nanoseconds> end;
  if (!options.length.empty()) {
    const auto length = parse_duration(options.length);
    if (!length) return tl::unexpected(length.error());
    end = Nanoseconds(static_cast<std::int64_t>(*length));
  } else if (!options.keep && ::isatty(STDOUT_FILENO) == 0) {
    end = scenario->length;
  }
  if (outer.dry_run) {
    fmt::print("would play {} on simulated GPUs ({}) with {}: {}\n", scenario->name, scenario->node,
               counted(scenario->programs.size(), "program"), scenario->about);
    return 0;
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, [](int) { interrupted = 1; });
  ::signal(SIGPIPE, SIG_IGN);
  const auto node = DemoNode::open(*scenario);
  if (!node) return tl::unexpected(node.error());
  Session session = outer;
  session.simulated = true;
  session.simulated_node = scenario->node;
  session.socket = (*node)->socket();
  auto daemon = NodeClient::require(session);
  if (!daemon) return tl::unexpected(daemon.error());
  Play play(session, options, *scenario, **node, *daemon);
  play.introduce();
  const int outcome = play.play(end);
  if (interrupted == 0) play.show({"ps"});
  return outcome;
}

}  // namespace ration::cli
