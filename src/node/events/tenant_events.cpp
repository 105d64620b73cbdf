#include "node/events/tenant_events.hpp"

#include <fmt/format.h>

namespace ration::node {

using history::Event;
using history::plain_event;

Event tenant_changed_event(const TenantChange& change) {
  const auto shown = [](const std::string& text) { return text.empty() ? std::string("none") : text; };
  std::string over;
  for (const TenantChange::Over& each : change.over)
    over += fmt::format("; over by {} on GPU {}", format_size(each.used - each.limit), each.gpu);
  Event event = plain_event("resized", fmt::format("tenant {}: {} {} → {}, by {}{}", change.tenant, change.what,
                                                   shown(change.old_text), shown(change.new_text), change.by, over));
  event.tenant = change.tenant;
  event.by = change.by;
  event.old_value = change.old_text;
  event.new_value = change.new_text;
  return event;
}

}  // namespace ration::node
