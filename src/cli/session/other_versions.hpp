// Workloads whose books another version of ration wrote: this one cannot read them, and says who can. Used by ps, set,
// stop, why and doctor.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "book/store.hpp"

namespace ration::cli {

/// E1450 for each such book: which ration wrote it, and what to do. Those that run come first.
[[nodiscard]] std::vector<Error> of_other_versions(const book::Store& store);

/// Of those that run alone.
[[nodiscard]] std::vector<Error> running_of_other_versions(const book::Store& store);

/// E1450 if a workload of that name runs under another version, and none under this one.
[[nodiscard]] Result<void> is_of_this_version(const book::Store& store, const std::string& name);

}  // namespace ration::cli
