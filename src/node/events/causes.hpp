// What led to an event: earlier ones of the same workload, tenant or lease. Used by the HTTP interface for
// `/events/{id}/why` and so by `ration why`. Promises: only what was recorded; no guess.
#pragma once

#include <vector>

#include "history/reader.hpp"

namespace ration::node {

/// Oldest first, at most four; empty where nothing earlier is known to belong to it.
[[nodiscard]] Result<std::vector<history::Event>> causes_of(history::Reader& reader, const history::Event& event);

}  // namespace ration::node
