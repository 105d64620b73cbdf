// Compares two recordings of similar programs: their peaks and what each peak consisted of, groups of blocks, and
// blocks never freed. Used by `ration inspect --diff`. Does not tell processes apart, since their numbers differ from
// run to run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/inspection.hpp"

namespace ration::trace {

struct Amount {
  std::int64_t bytes = 0;
  std::uint64_t count = 0;  ///< number of blocks or events; 0 for an amount of bytes alone
  [[nodiscard]] bool operator==(const Amount&) const = default;
};

/// The kinds of amounts that are compared.
enum class Compared : std::uint8_t { kEvents, kDenied, kPeak, kUse, kBlocks, kNeverFreed };

struct Difference {
  Compared what = Compared::kPeak;
  std::optional<Place> place;
  std::string name;         ///< name of a use, or call site of the blocks
  std::uint64_t bytes = 0;  ///< size of one block
  Amount before, after;
};

/// An inspection, and the header that resolves its numbers to names.
struct Inspected {
  const Inspection& inspection;
  const Header& header;
};

/// Returns the changes from one recording to another. The number of events, the number of denials, and the peaks come
/// first, whether they changed or not. Other amounts are left out if they are equal; in each kind the largest change
/// comes first.
[[nodiscard]] std::vector<Difference> difference(const Inspected& before, const Inspected& after);

}  // namespace ration::trace
