// The reliability of an answer of what-if. Every answer has a grade.
#pragma once

#include <cstdint>
#include <string>

namespace ration::trace {

enum class Grade : std::uint8_t {
  kExact,    ///< sums of recorded charges, or the allocator itself, run on a device that only accounts for memory
  kModel,    ///< a model of an allocator, whose error is measured against the original
  kRun,      ///< the program itself ran
  kUnknown,  ///< cannot be answered from the recording; Judgement::reason says why
};

/// Returns the word for a grade in texts and JSON: `exact`.
[[nodiscard]] constexpr const char* name_of(Grade grade) noexcept {
  constexpr const char* kNames[] = {"exact", "model", "run", "unknown"};
  return kNames[static_cast<std::size_t>(grade)];
}

/// A grade, and the facts that a person needs to judge the answer; `reason` is empty if there are none.
struct Judgement {
  Grade grade = Grade::kExact;
  std::string reason;
};

}  // namespace ration::trace
