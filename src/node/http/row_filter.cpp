#include "node/http/row_filter.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "rows/filter.hpp"

namespace ration::node {

using nlohmann::json;

Result<std::optional<Snapshot>> filtered(const Snapshot& snapshot, const http::Request& request, const Viewer& viewer) {
  const std::string* text = request.parameter("filter");
  if (text == nullptr) return std::nullopt;
  RATION_TRY(const auto filter, rows::Filter::parse(*text));
  if (filter.empty()) return std::nullopt;
  // Applies the filter to the JSON that the viewer sees, so that no filter reveals hidden fields.
  json data{{"devices", json::array()}};
  for (const DeviceView& device : snapshot.devices) data["devices"].push_back(device_json(device));
  data["workloads"] = json::parse(rows_text(snapshot, viewer, kAllProcesses));
  const rows::Model model = rows::read_snapshot(data);
  Snapshot some = snapshot;
  some.accounts.clear();
  some.ungoverned.clear();
  for (std::size_t i = 0; i < model.rows.size(); ++i) {
    const rows::Row& row = model.rows[i];
    if (!filter.matches(row, model.device(row.gpu))) continue;
    if (i < snapshot.accounts.size())
      some.accounts.push_back(snapshot.accounts[i]);
    else
      some.ungoverned.push_back(snapshot.ungoverned[i - snapshot.accounts.size()]);
  }
  return some;
}

}  // namespace ration::node
