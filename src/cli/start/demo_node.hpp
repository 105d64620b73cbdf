// The node of `ration demo`: a private folder, a daemon on a port of its own, and programs under `ration run`. Promise:
// when the owner ends, even by SIGKILL, every process started here is ended and the folder removed, by a sweeper
// process that waits for that moment. If the sweeper was killed, the owner cleans up itself.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "cli/session/scenario.hpp"
#include "cli/session/session.hpp"

namespace ration::cli {

class DemoNode {
 public:
  /// Makes the folder, starts the daemon and gives this process the demo's environment. Fails with E1405 if the
  /// folder cannot be made, with E1443 if the daemon does not start.
  [[nodiscard]] static Result<std::unique_ptr<DemoNode>> open(const Scenario& scenario);
  ~DemoNode();
  DemoNode(const DemoNode&) = delete;
  DemoNode& operator=(const DemoNode&) = delete;

  void start(const ScenarioProgram& program, double speed, unsigned seed);

  /// Returns the programs that have ended since the last call, with their exit codes.
  [[nodiscard]] std::vector<std::pair<std::string, int>> take_ended();
  /// Returns the last line that a program printed.
  [[nodiscard]] std::string last_words(const std::string& name) const;

  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// Returns the demo's name, which --sim takes in any terminal.
  [[nodiscard]] static std::string name();
  [[nodiscard]] std::string socket() const { return folder_ + "/ration.sock"; }
  /// Returns the link to the dashboard, which gives an operator's rights to the first browser that opens it.
  [[nodiscard]] const std::string& link() const { return link_; }
  [[nodiscard]] const std::string& token() const { return token_; }

 private:
  DemoNode() = default;
  Result<void> make_folder(const Scenario& scenario);
  Result<void> start_sweeper();
  Result<void> start_daemon();
  [[nodiscard]] std::string log(const std::string& name) const { return folder_ + "/" + name + ".log"; }
  [[nodiscard]] std::string text_of(const std::string& name) const;

  std::string folder_, token_, link_, node_;
  int port_ = 0;
  pid_t sweeper_ = -1, daemon_ = -1;
  FileDescriptor alive_;   ///< pipe whose closing tells the sweeper that this process has ended
  FileDescriptor marked_;  ///< file that stays locked while the demo runs, as join_demo() checks
  std::map<std::string, pid_t> running_;
};

/// Returns the name (`demo:4711`) of the demo that this process belongs to; absent if it belongs to none.
[[nodiscard]] std::optional<std::string> enclosing_demo();

/// Returns true if a node's description names a running demo: `demo`, or `demo:4711` with the pid of `ration demo`.
[[nodiscard]] bool names_demo(const std::string& node);

/// Connects the session to the demo that its --sim names. The name `demo` means the demo that this process belongs to,
/// else the user's only demo. Fails with E1444 if there is no such demo, and with E1445 if the name is `demo` and
/// several run.
[[nodiscard]] Result<void> join_demo(Session& session);

}  // namespace ration::cli
