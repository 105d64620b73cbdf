// Finds earlier events of the same workload, tenant or lease that led to an event.
// Promise: every cause is a recorded event; nothing is guessed.
#pragma once

#include <vector>

#include "history/reader.hpp"

namespace ration::node {

/// Returns up to four causes, oldest first.
[[nodiscard]] Result<std::vector<history::Event>> causes_of(history::Reader& reader, const history::Event& event);

}  // namespace ration::node
