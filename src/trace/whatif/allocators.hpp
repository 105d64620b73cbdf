// The allocators that what-if tries, by name: `pytorch`, or `pytorch:max_split_size_mb:128` with settings.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "trace/whatif/allocator.hpp"
#include "trace/whatif/grade.hpp"

namespace ration::trace {

struct NamedAllocator {
  std::string name;     ///< name with settings
  Judgement judgement;  ///< judgement of its answers for a recording of tensors
  MakeAllocator make;
};

/// Returns the names without settings.
[[nodiscard]] const std::vector<std::string>& allocator_names();

/// Makes an allocator from `NAME[:SETTINGS]`. Fails with E1813.
[[nodiscard]] Result<NamedAllocator> find_allocator(const std::string& text);

}  // namespace ration::trace
