// How much an answer of what-if is worth. Every answer carries one of these.
#pragma once

#include <cstdint>
#include <string>

namespace ration::trace {

enum class Grade : std::uint8_t {
  kExact,    ///< sums of recorded charges, or the allocator itself at work on a device that only accounts
  kModel,    ///< a model of an allocator, whose error is measured against the original
  kRun,      ///< the program itself ran
  kUnknown,  ///< cannot be answered from the recording, for the reason that stands beside it
};

/// Returns the word for it in texts and JSON: `exact`.
[[nodiscard]] constexpr const char* name_of(Grade grade) noexcept {
  constexpr const char* kNames[] = {"exact", "model", "run", "unknown"};
  return kNames[static_cast<std::size_t>(grade)];
}

/// A grade, and what has to be known to judge the answer; empty if nothing.
struct Judgement {
  Grade grade = Grade::kExact;
  std::string reason;
};

}  // namespace ration::trace
