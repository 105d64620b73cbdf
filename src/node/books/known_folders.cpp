#include "node/books/known_folders.hpp"

#include <nlohmann/json.hpp>

#include "base/say.hpp"
#include "node/state/whole_number.hpp"

namespace ration::node {

using nlohmann::json;

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
