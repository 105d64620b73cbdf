#include "cli/session/other_nodes.hpp"

#include <algorithm>
#include <set>

namespace ration::cli {

using nlohmann::json;

std::map<std::string, int> workloads_of_other_nodes(const Session& session, const json& devices, const json& rows) {
  std::map<std::string, int> workloads;
  const auto store = session.store();
  if (!store) return workloads;
  std::set<std::string> shown_nodes;
  for (const json& row : rows) shown_nodes.insert(row.value("simulation", ""));
  const std::set<std::string> nodes = store->simulations();
  if (std::includes(shown_nodes.begin(), shown_nodes.end(), nodes.begin(), nodes.end())) return workloads;
  for (const auto& stored : store->list()) {
    const book::BookSnapshot& book = stored.contents;
    const bool of_shown_device = std::any_of(book.accounts.begin(), book.accounts.end(), [&](const auto& account) {
      return std::any_of(devices.begin(), devices.end(),
                         [&](const json& device) { return machine::is_uuid(device.at("uuid"), account.device); });
    });
    const bool shown = of_shown_device || shown_nodes.contains(book.simulation);
    if (stored.live && !shown && !book.simulation.empty()) ++workloads[book.simulation];
  }
  return workloads;
}

}  // namespace ration::cli
