#include "node/books/known_folders.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/say.hpp"
#include "node/state/whole_number.hpp"

namespace ration::node {

using nlohmann::json;

std::vector<std::pair<std::string, std::uint32_t>> folders_of_others() {
  namespace fs = std::filesystem;
  std::vector<std::pair<std::string, std::uint32_t>> folders;
  if (::getuid() != 0 || std::getenv("RATION_RUNTIME_DIR") != nullptr) return folders;
  const auto add = [&](const std::string& folder) {
    struct stat status {};
    if (::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) folders.emplace_back(folder, status.st_uid);
  };
  std::error_code error;
  for (fs::directory_iterator each("/run/user", error), end; !error && each != end; each.increment(error))
    add(each->path().string() + "/ration");
  error.clear();
  for (fs::directory_iterator each("/tmp", error), end; !error && each != end; each.increment(error))
    if (each->path().filename().string().rfind("ration-", 0) == 0) add(each->path());
  return folders;
}

Result<void> save_folders(StateFile& file, const std::vector<std::pair<std::string, std::uint32_t>>& folders) {
  json rows = json::array();
  for (const auto& [path, whose] : folders) rows.push_back({path, whose});
  return file.write(rows);
}

void restore_folders(StateFile& file, Registry& registry) {
  file.read(fixed<"state.folders_lost">(), [&](const json& rows) {
    if (!rows.is_array()) throw std::invalid_argument("it is not a list");
    std::vector<std::pair<std::string, std::uint32_t>> known;
    for (const auto& row : rows)
      known.emplace_back(row.at(0).get<std::string>(), whole_number<std::uint32_t>(row.at(1)));
    for (const auto& [folder, owner] : known) (void)registry.watch(folder, owner);
  });
}

}  // namespace ration::node
