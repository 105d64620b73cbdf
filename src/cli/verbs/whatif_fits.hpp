// The part of `ration whatif` that asks whether programs fit on GPUs. A program is given as a size or as a recording.
#pragma once

#include <string>
#include <vector>

#include "cli/session/session.hpp"

namespace ration::cli {

/// Returns true for `NAME=SIZE`, unless a file has that name.
[[nodiscard]] bool is_size(const std::string& word);

/// Prints whether the programs fit on the GPUs; if `gpus` is empty, on the GPUs of this machine. Returns 4 with E1306
/// if they do not.
[[nodiscard]] Result<int> whatif_fits(const Session& session, const std::vector<std::string>& programs,
                                      const std::vector<std::string>& gpus);

}  // namespace ration::cli
