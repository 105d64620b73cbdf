#include "cli/doctor/trial_folder.hpp"

#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "cli/session/node_client.hpp"

namespace ration::cli {

TrialFolder::TrialFolder(const Session& session, TrialNode node) {
  const auto store = session.store();
  const auto daemon = NodeClient::find(session);
  if (!store || (node == TrialNode::kOfSession && (!daemon || *daemon))) return;
  std::string path = store->folder() + "/doctor-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return;
  path_ = path;
  for (const char* variable : {"RATION_RUNTIME_DIR", "RATION_SIM_DIR"}) {
    if (node == TrialNode::kOfSession && variable == std::string_view("RATION_SIM_DIR")) continue;
    const char* value = std::getenv(variable);
    former_.emplace_back(variable, value == nullptr ? std::nullopt : std::optional<std::string>(value));
    ::setenv(variable, path_.c_str(), 1);
  }
}

TrialFolder::~TrialFolder() {
  for (const auto& [variable, value] : former_) value ? ::setenv(variable, value->c_str(), 1) : ::unsetenv(variable);
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove_all(path_, error);
}

}  // namespace ration::cli
