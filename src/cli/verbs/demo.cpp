// `ration demo`: plays a scenario on simulated GPUs with a real daemon and real programs of several tenants, and prints
// events as they happen.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include "cli/session/node_client.hpp"
#include "cli/start/demo_node.hpp"
#include "cli/start/launch.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

volatile std::sig_atomic_t interrupted = 0;

// Types of events that get a line. A start gets none, since a moment announces the start.
constexpr const char* kShownTypes =
    "denied,waited,resized,rebalanced,suspended,resumed,trimmed,queued,granted,dequeued,violation,alert,ended";
constexpr auto kBeat = 50ms;
constexpr auto kTriedAgain = 200ms;
constexpr auto kQuiet = 8s;  // shortest time between two lines of the same type and workload

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

/// Returns a command as it can be typed in another terminal.
std::vector<std::string> of_demo(std::vector<std::string> words) {
  words.emplace_back("--sim=" + DemoNode::name());
  return words;
}

Output run_in_demo(const std::vector<std::string>& words) {
  std::vector<std::string> program = of_demo(words);
  program.insert(program.begin(), companion("ration"));
  return output_of(program);
}

/// The lines that the demo prints, with the time since its start.
class Transcript {
 public:
  void begin() { begun_ = Clock::now(); }
  [[nodiscard]] Nanoseconds elapsed() const { return Clock::now() - begun_; }

  template <typename... Arguments>
  void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    fmt::print(format, std::forward<Arguments>(arguments)...);
    fmt::print("\n");
    std::fflush(stdout);
  }
  template <typename... Arguments>
  void say_now(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(elapsed()).count();
    say("{:02}:{:02}  {}", seconds / 60, seconds % 60, fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  /// Runs a command and shows it with its output.
  void show(const std::vector<std::string>& words) const {
    say("\n$ ration {}", fmt::join(of_demo(words), " "));
    fmt::print("{}", run_in_demo(words).text);
    std::fflush(stdout);
  }

 private:
  Clock::time_point begun_;
};

/// Runs the scenario's commands when they are due.
class Typist {
 public:
  Typist(const Scenario& scenario, NodeClient& daemon, const Transcript& transcript)
      : scenario_(scenario), daemon_(daemon), transcript_(transcript) {}

  void step() {
    for (std::size_t number = 0; number < scenario_.commands.size(); ++number) step(number);
    note_who_waits();
  }

 private:
  /// Runs a command that is due. If the command is for a program that waits for memory, each of its lines must succeed
  /// before the next line runs.
  void step(std::size_t number) {
    const ScenarioCommand& command = scenario_.commands[number];
    std::size_t& line = next_line_[number];
    if (command.waits.empty()) {
      while (command.at <= transcript_.elapsed() && line < command.lines.size())
        (void)type(command.lines[line++], true);
      return;
    }
    const bool waits = waiting_.count(command.waits) != 0;
    if (line == command.lines.size() && !waits) line = 0;
    const bool due = waits && line < command.lines.size() && Clock::now() >= next_try_;
    if (!due) return;
    next_try_ = Clock::now() + kTriedAgain;
    if (type(command.lines[line], false)) ++line, next_try_ = Clock::now();
  }

  /// Runs a command line and returns true if it succeeded. Shows a failure only if this is the `only_try`: otherwise
  /// the caller tries again.
  bool type(const std::vector<std::string>& words, bool only_try) {
    const Output output = run_in_demo(words);
    const bool done = output.exit_code == 0;
    if (done || only_try) transcript_.say_now("$ ration {}", fmt::join(of_demo(words), " "));
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

  const Scenario& scenario_;
  NodeClient& daemon_;
  const Transcript& transcript_;
  Clock::time_point next_try_;
  std::map<std::size_t, std::size_t> next_line_;  ///< number of the next line, by command
  std::set<std::string> waiting_;
};

/// The lines for events of kShownTypes: within kQuiet, at most one line for each type and workload. The first denial
/// gets an explanation.
class EventLines {
 public:
  EventLines(const Session& session, double speed, NodeClient& daemon, const Transcript& transcript)
      : session_(session), quiet_(kQuiet / speed), daemon_(daemon), transcript_(transcript) {}

  void step() {
    const auto events = daemon_.get(fmt::format("/api/v1/events?since={}&limit=200&type={}", last_event_, kShownTypes));
    if (!events) return;
    for (const json& event : *events) {
      last_event_ = std::max(last_event_, event.at("id").get<std::int64_t>());
      const std::string type = event.at("type");
      const std::string about =
          type + "/" + (event.at("workload").is_string() ? event["workload"].get<std::string>() : "");
      const auto last = shown_.find(about);
      if (last != shown_.end() && Clock::now() - last->second < quiet_) continue;
      shown_[about] = Clock::now();
      const bool refusal = type == "denied";
      transcript_.say_now("{:<10} {}", refusal ? session_.painted("DENIED", 31) + "    " : type,
                          event.at("text").get<std::string>());
      if (refusal && !explained_ && event.at("denial").is_string()) {
        explained_ = true;
        transcript_.show({"why", event["denial"].get<std::string>()});
        transcript_.say("");
      }
    }
  }

 private:
  const Session& session_;
  std::chrono::duration<double> quiet_;
  NodeClient& daemon_;
  const Transcript& transcript_;
  std::int64_t last_event_ = 0;
  std::map<std::string, Clock::time_point> shown_;
  bool explained_ = false;
};

class Play {
 public:
  Play(const Session& session, const DemoOptions& options, const Scenario& scenario, DemoNode& node, NodeClient& daemon)
      : session_(session), options_(options), scenario_(scenario), node_(node), daemon_(daemon) {}

  void introduce() {
    const auto snapshot = daemon_.get("/api/v1/snapshot");
    std::set<std::string> tenants;
    for (const ScenarioProgram& program : scenario_.programs) tenants.insert(program.tenant);
    transcript_.say("ration demo: {}, {}, {}, seed {} - it changes nothing on this machine and needs no GPU",
                    snapshot ? devices_text(*snapshot) : scenario_.node, counted(tenants.size(), "tenant"),
                    counted(scenario_.programs.size(), "program"), options_.seed);
    transcript_.say("  {}: {}", scenario_.name, scenario_.about);
    transcript_.say("  dashboard  {}", node_.link());
    transcript_.say("             (the link works once; to change limits in another browser, use token {})",
                    node_.token());
    transcript_.say("  terminal   ration ps --sim={}", DemoNode::name());
    if (!scenario_.moments.empty()) transcript_.say("  {}", moments_text(scenario_));
    if (!scenario_.try_this.empty()) transcript_.say("  try:  {} --sim={}", scenario_.try_this, DemoNode::name());
    transcript_.say("Ctrl-C stops (speed ×{:g}; try --speed 10, --scenario {})\n", options_.speed,
                    fmt::join(scenario_names(), "|"));
  }

  /// Plays the scenario until its end or a signal.
  int play(std::optional<Nanoseconds> end) {
    Typist typist(scenario_, daemon_, transcript_);
    EventLines events(session_, options_.speed, daemon_, transcript_);
    std::size_t next = 0;
    int outcome = 0;
    transcript_.begin();
    while (interrupted == 0 && (!end || transcript_.elapsed() < *end)) {
      for (; next < scenario_.programs.size() && scenario_.programs[next].start <= transcript_.elapsed(); ++next)
        node_.start(scenario_.programs[next], options_.speed, options_.seed + static_cast<unsigned>(next));
      typist.step();
      events.step();
      for (const auto& [name, code] : node_.take_ended()) {
        if (code < 125 || code > 127) continue;  // an event reports the end of a program that ran
        transcript_.say_now("{} could not be run: {}", name, node_.last_words(name));
        outcome = 1;
      }
      std::this_thread::sleep_for(kBeat);
    }
    return outcome;
  }

  void show(const std::vector<std::string>& words) const { transcript_.show(words); }

 private:
  const Session& session_;
  const DemoOptions& options_;
  const Scenario& scenario_;
  DemoNode& node_;
  NodeClient& daemon_;
  Transcript transcript_;
};

Result<int> play_program(const Session& session, const DemoOptions& options, const std::string& program) {
  if (!options.length.empty())
    return fail("E1441",
                fmt::format("--for cannot be used with {}: the length of this scenario is fixed.", options.scenario),
                fmt::format("ration demo --scenario {}", options.scenario), 2);
  std::vector<std::string> words{program, fmt::format("--speed={:g}", options.speed)};
  if (options.keep) words.emplace_back("--keep");
  if (session.dry_run) {
    fmt::print("would run {}\n", shown_command(words));
    return 0;
  }
  ::setenv("RATION", companion("ration").c_str(), 1);
  give_no_input();
  return become(words);
}

}  // namespace

Result<int> demo(const Session& outer, const DemoOptions& options) {
  if (const std::string program = scenario_program(options.scenario); !program.empty())
    return play_program(outer, options, program);
  RATION_TRY(const auto scenario, read_scenario(options.scenario, options.speed));
  std::optional<Nanoseconds> end;
  if (!options.length.empty()) {
    RATION_TRY(const auto length, parse_duration(options.length));
    end = Nanoseconds(static_cast<std::int64_t>(length));
  } else if (!options.keep && ::isatty(STDOUT_FILENO) == 0) {
    end = scenario.length;
  }
  if (outer.dry_run) {
    fmt::print("would play {} on simulated GPUs ({}) with {}: {}\n", scenario.name, scenario.node,
               counted(scenario.programs.size(), "program"), scenario.about);
    return 0;
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, [](int) { interrupted = 1; });
  ::signal(SIGPIPE, SIG_IGN);
  RATION_TRY(const auto node, DemoNode::open(scenario));
  Session session = outer;
  session.simulated = true;
  session.simulated_node = scenario.node;
  session.socket = node->socket();
  RATION_TRY(auto daemon, NodeClient::require(session));
  Play play(session, options, scenario, *node, daemon);
  play.introduce();
  const int outcome = play.play(end);
  if (interrupted == 0) play.show({"ps"});
  return outcome;
}

}  // namespace ration::cli
