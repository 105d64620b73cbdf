// The place where a trial of the doctor leaves nothing behind.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/session/session.hpp"

namespace ration::cli {

/// The node on which a trial runs: the session's, or a simulated one of the trial's own.
enum class TrialNode { kOfSession, kOwn };

/// A folder inside the user's runtime directory, in which a trial keeps its book and its own simulated node. As long as
/// this object lives, the environment names the folder in place of the user's folders. A trial on the session's node
/// uses the user's folders if there is a daemon, because the daemon has to know every program on this node.
class TrialFolder {
 public:
  TrialFolder(const Session& session, TrialNode node);
  ~TrialFolder();
  TrialFolder(const TrialFolder&) = delete;
  TrialFolder& operator=(const TrialFolder&) = delete;

 private:
  std::string path_;
  std::vector<std::pair<const char*, std::optional<std::string>>> former_;
};

}  // namespace ration::cli
