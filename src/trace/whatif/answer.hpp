// The answers of what-if for one recording: a row for each device, as recorded and under other allocators. Used by
// `ration whatif`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "trace/whatif/allocators.hpp"
#include "trace/whatif/charges.hpp"

namespace ration::trace {

struct Answer {
  std::string allocator;   ///< `as recorded`, or the name of another allocator
  std::size_t device = 0;  ///< index in Header::devices
  Judgement judgement;
  std::optional<Bytes> smallest;        ///< the smallest limit; absent if unknown
  bool is_bound = false;                ///< true if the smallest limit is only known to be at least `smallest`
  std::optional<DeniedRequest> denied;  ///< first request that the given limit denies
};

struct Answers {
  Circumstances circumstances;
  std::vector<Answer> rows;
};

struct Question {
  std::optional<Bytes> limit;              ///< on each device
  std::vector<NamedAllocator> allocators;  ///< allocators to try besides the recorded one
};

/// Answers the question. Fails with E1813 if the recording is too long to be tried under other allocators.
[[nodiscard]] Result<Answers> answer(const Recording& recording, const Question& question);

/// Returns why the next run may differ from what was recorded: sentences without a final full stop.
[[nodiscard]] std::vector<std::string> doubts(const Header& header, const Circumstances& circumstances);

}  // namespace ration::trace
