// GPUs given by model or size, because what-if also answers for GPUs that this machine does not have.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace ration::trace {

struct NamedGpu {
  std::string name;  ///< as typed; empty for a size alone
  Bytes usable;
};

inline constexpr int kMostOfOneKind = 1000;

/// Parses `12GiB`, `A100-40:2` or `T4:15GiB*3,H100`: model, memory if it differs from the model's, count. Fails with
/// E1308.
[[nodiscard]] Result<std::vector<NamedGpu>> parse_gpus(const std::string& text);

/// Removes a count such as `*6` from the end of the text and returns it; 1 if there is none. Absent for a count that is
/// not from 1 to kMostOfOneKind.
[[nodiscard]] std::optional<int> take_count(std::string& text, char mark);

}  // namespace ration::trace
