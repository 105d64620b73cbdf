#include "top/view.hpp"

#include <algorithm>
#include <set>

namespace ration::top {

std::vector<const Row*> shown_rows(const View& view) {
  std::vector<const Row*> rows;
  for (const Row& row : view.model.rows)
    if (view.filter.empty() || view.filter.matches(row, view.model.device(row.gpu))) rows.push_back(&row);
  view.order.sort(rows);
  return rows;
}

const Row* selected_row(const View& view, const std::vector<const Row*>& shown) {
  if (shown.empty()) return nullptr;
  const auto found =
      std::find_if(shown.begin(), shown.end(), [&](const Row* row) { return row->key() == view.selected; });
  return found == shown.end() ? shown.front() : *found;
}

void take_snapshot(View& view, Model model, std::int64_t now) {
  std::set<std::string> tenants;
  for (const Row& row : model.rows)
    if (row.governed) tenants.insert(row.tenant);
  for (const std::string& tenant : tenants)
    if (std::find(view.patterns.begin(), view.patterns.end(), tenant) == view.patterns.end())
      view.patterns.push_back(tenant);
  view.history.add(model, now);
  view.model = std::move(model);
  view.now = now;
  view.seen_at = now;
  view.lost.clear();
}

void take_event(View& view, Event event) {
  // A reconnection may repeat events.
  const bool known = std::any_of(view.events.begin(), view.events.end(),
                                 [&](const Event& each) { return each.id != 0 && each.id == event.id; });
  if (known) return;
  // A daemon learns of some events late, for example of those before its start.
  const auto later = std::upper_bound(view.events.begin(), view.events.end(), event,
                                      [](const Event& a, const Event& b) { return a.time < b.time; });
  view.events.insert(later, std::move(event));
  if (view.events.size() > View::kEventsKept) view.events.pop_front();
}

std::string short_size(const std::optional<Bytes>& bytes, Units units) {
  if (!bytes) return "n/a";
  if (*bytes >= kUnlimited) return "-";
  if (*bytes == Bytes{0}) return "0";
  const std::string text = format_size(*bytes, units);
  const std::size_t blank = text.find(' ');
  if (blank == std::string::npos) return text;
  const std::string unit = text.substr(blank + 1, 1);
  return text.substr(0, blank) + (unit == "k" ? "K" : unit);
}

}  // namespace ration::top
