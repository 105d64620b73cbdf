// The content of a place at a moment, for a flame graph and a map: groups of blocks, the blocks by address, and the
// holes between blocks. Addresses are those that the program knows, so each process has a map of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/inspection.hpp"

namespace ration::trace {

/// Blocks that follow each other by address and are drawn as one.
struct Run {
  std::uint32_t process = 0;
  std::uint64_t address = 0;
  std::uint64_t span = 0;   ///< from the beginning of the first block to the end of the last block
  std::uint64_t bytes = 0;  ///< sum of the blocks
  std::uint64_t count = 0;
  std::uint32_t site = 0;  ///< call site of the largest block
  std::int64_t since = 0;  ///< time at which the oldest block was taken
};

/// The unused addresses between blocks. An unused range that is longer than the most bytes the place ever held is not a
/// hole: it is address space that was never used.
struct Holes {
  std::uint64_t bytes = 0;
  std::uint64_t largest = 0;
  std::uint64_t count = 0;
};

/// The blocks of a place by address.
struct AddressMap {
  std::vector<Run> runs;  ///< by process and address
  Holes holes;
  std::uint64_t blocks = 0;
  std::uint64_t unaddressed = 0;  ///< bytes of physical memory, which has a number in place of an address
};

/// Returns the live blocks of a place by address. `longest` is the greatest length of a hole. The map has at most twice
/// `most_runs` runs, plus one for each process.
[[nodiscard]] AddressMap map_of(const Live& live, Place place, std::uint64_t longest, std::size_t most_runs);

/// Returns the `most` largest groups of a place's live blocks, by process, call site and size, the largest first. Sets
/// `left_out` to the bytes of all other groups.
[[nodiscard]] std::vector<Group> groups_of(const Live& live, Place place, std::size_t most, std::uint64_t& left_out);

/// The use of a place's memory at a moment.
struct Usage {
  Place place;
  std::int64_t held = 0;
  std::uint64_t requested = 0;  ///< bytes requested for the live blocks
  std::int64_t fixed = 0;       ///< bytes of contexts, of code, and from before the recording: they belong to no block
  Holes holes;
};

/// Returns the usage of a place at the moment of `live`. `longest` is the greatest length of a hole.
[[nodiscard]] Usage usage_of(const Live& live, Place place, std::uint64_t longest);

}  // namespace ration::trace
