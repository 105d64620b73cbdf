// What two recordings of alike programs have in different amounts: peaks and what they consisted of, blocks alike, what
// was never freed. Used by `ration inspect --diff`. Processes are not told apart, since their numbers differ each time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/inspection.hpp"

namespace ration::trace {

struct Amount {
  std::int64_t bytes = 0;
  std::uint64_t count = 0;  ///< of blocks or events; 0 where bytes alone are meant
  [[nodiscard]] bool operator==(const Amount&) const = default;
};

/// What both recordings may have some of.
enum class Compared : std::uint8_t { kEvents, kDenied, kPeak, kUse, kBlocks, kNeverFreed };

struct Difference {
  Compared what = Compared::kPeak;
  std::optional<Place> place;
  std::string name;         ///< of a use, or the call site of blocks
  std::uint64_t bytes = 0;  ///< of one block
  Amount before, after;
};

/// An inspection with the names that its numbers stand for.
struct Inspected {
  const Inspection& inspection;
  const Header& header;
};

/// Returns the changes from one recording to another: numbers of events and denials and peaks in any case, everything
/// else only where it differs, the largest change first.
[[nodiscard]] std::vector<Difference> difference(const Inspected& before, const Inspected& after);

}  // namespace ration::trace
