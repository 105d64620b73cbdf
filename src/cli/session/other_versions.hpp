// Workloads whose books another version of ration wrote. This version cannot read the books, and names the program that
// can. Used by ps, set, stop, why and doctor.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "book/store.hpp"

namespace ration::cli {

/// Returns an E1450 for each such book, those of running workloads first. For a running workload, the error names the
/// program of the other version if that is known.
[[nodiscard]] std::vector<Error> of_other_versions(const book::Store& store);

/// Returns an E1450 for each such book of a running workload.
[[nodiscard]] std::vector<Error> running_of_other_versions(const book::Store& store);

/// Returns E1450 if a workload of that name runs under another version and none runs under this one.
[[nodiscard]] Result<void> is_of_this_version(const book::Store& store, const std::string& name);

}  // namespace ration::cli
