// Finds what led to an event: earlier events of the same workload, tenant or lease.
// Promise: recorded events only, no guesses.
#pragma once

#include <vector>

#include "history/reader.hpp"

namespace ration::node {

/// Returns at most four causes, oldest first; empty: none found.
[[nodiscard]] Result<std::vector<history::Event>> causes_of(history::Reader& reader, const history::Event& event);

}  // namespace ration::node
