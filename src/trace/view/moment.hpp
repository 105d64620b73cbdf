// What a place consisted of at a moment, for a flame graph and a map: groups of blocks alike, the blocks by address,
// and the holes between them. Addresses are those that the program knows, so each process has a map of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/inspection.hpp"

namespace ration::trace {

/// Blocks that follow each other by address and are drawn as one.
struct Run {
  std::uint32_t process = 0;
  std::uint64_t address = 0;
  std::uint64_t span = 0;   ///< from the beginning of the first to the end of the last
  std::uint64_t bytes = 0;  ///< of the blocks
  std::uint64_t count = 0;
  std::uint32_t site = 0;  ///< of the largest
  std::int64_t since = 0;  ///< when the oldest was taken
};

/// Addresses between blocks. An empty range longer than the place ever held is no hole but address space never used.
struct Holes {
  std::uint64_t bytes = 0;
  std::uint64_t largest = 0;
  std::uint64_t count = 0;
};

/// What lies at a place, by address.
struct AddressMap {
  std::vector<Run> runs;  ///< by process and address
  Holes holes;
  std::uint64_t blocks = 0;
  std::uint64_t unaddressed = 0;  ///< bytes of physical memory, which has a number in place of an address
};

/// Returns the live blocks of a place by address. `longest` is the longest hole; there are at most twice
/// `most_runs` runs, and one more of each process.
[[nodiscard]] AddressMap map_of(const Live& live, Place place, std::uint64_t longest, std::size_t most_runs);

/// Returns the live blocks of a place by process, call site and size, the largest groups first; `left_out` is set to
/// the bytes of those beyond `most`.
[[nodiscard]] std::vector<Group> groups_of(const Live& live, Place place, std::size_t most, std::uint64_t& left_out);

/// How much of a place was of use at a time.
struct Usage {
  Place place;
  std::int64_t held = 0;
  std::uint64_t requested = 0;  ///< by the live blocks
  std::int64_t fixed = 0;       ///< of contexts and code, and from before the recording: no block has it
  Holes holes;
};

/// Returns the usage of a place now.
[[nodiscard]] Usage usage_of(const Live& live, Place place, std::uint64_t longest);

}  // namespace ration::trace
