// The node of `ration demo`: a private folder, a daemon on a port of its own, and programs under `ration run`.
// Promise: when the owner ends, however it ends (SIGKILL too), every process that was started here is ended and the
// folder is removed: a sweeper process waits for nothing else. Where that was killed, the owner does it at its end.
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
  /// Makes the folder and starts the daemon; from then on this process's environment is the demo's. E1405: no folder;
  /// E1443: the daemon did not start.
  [[nodiscard]] static Result<std::unique_ptr<DemoNode>> open(const Scenario& scenario);
  ~DemoNode();
  DemoNode(const DemoNode&) = delete;
  DemoNode& operator=(const DemoNode&) = delete;

  void start(const ScenarioProgram& program, double speed, unsigned seed);

  /// Programs that have ended since the last question, and their exit codes.
  [[nodiscard]] std::vector<std::pair<std::string, int>> take_ended();
  /// What a program said, the last line of it.
  [[nodiscard]] std::string last_words(const std::string& name) const;

  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// As --sim takes it, from any terminal.
  [[nodiscard]] static std::string name();
  [[nodiscard]] std::string socket() const { return folder_ + "/ration.sock"; }
  /// To the dashboard; makes an operator of whoever opens it first.
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
  FileDescriptor alive_;   ///< its other end tells the sweeper that this process has ended
  FileDescriptor marked_;  ///< locked while the demo runs: how join_demo() knows
  std::map<std::string, pid_t> running_;
};

/// The name (`demo:4711`) of the demo of this user that this process belongs to, if it belongs to one.
[[nodiscard]] std::optional<std::string> enclosing_demo();

/// Whether a node's description means a demo that runs: `demo`, or `demo:4711` by the process of its `ration demo`.
[[nodiscard]] bool names_demo(const std::string& node);

/// The verb looks at that demo of this user: inside a demo at that one, else at the only one. E1444: it does not run;
/// E1445: several do, and none is named.
[[nodiscard]] Result<void> join_demo(Session& session);

}  // namespace ration::cli
