// The rule that reports waits. `engine/rules.cpp` declares when it runs.
#pragma once

#include <memory>

#include "node/limits/limit_moves.hpp"
#include "node/tick/rule.hpp"

namespace ration::node {

/// Reports requests for memory that had to wait for room and got it.
std::unique_ptr<Rule> wait_rule(LimitMoves& moves);

}  // namespace ration::node
