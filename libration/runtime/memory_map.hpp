// The layout of a pool's memory, for programs (JSON) and for people (SVG, a line of characters). Used by runtime.cpp.
#pragma once

#include <string>
#include <vector>

#include "pool/allocator.hpp"
#include "ration/runtime.hpp"

namespace ration::runtime {

[[nodiscard]] std::string map_as_json(const pool::Statistics& statistics,
                                      const std::vector<pool::Allocator::Piece>& pieces,
                                      const std::vector<TagUsage>& tags);
[[nodiscard]] std::string map_as_svg(const pool::Statistics& statistics,
                                     const std::vector<pool::Allocator::Piece>& pieces);
/// Returns 100 characters for all memory taken, as in TensorFlow's report: `*` in use, `x` partly in use, `_` free.
[[nodiscard]] std::string map_as_line(const std::vector<pool::Allocator::Piece>& pieces);

}  // namespace ration::runtime
