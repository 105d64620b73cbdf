// The arrays and mipmapped arrays of the simulated driver: plain memory with a shape. Used by arrays.cpp and the
// copies.
#pragma once

#include "driver.hpp"

namespace ration::sim {

/// The layout of an array in memory: `depth` slices of `height` rows of `row` bytes, without padding.
struct ArrayLayout {
  std::uint64_t address = 0;
  std::uint64_t row = 0, height = 1, depth = 1;
};

/// Writes the layout of an array. Returns false if the handle is not an array.
bool layout_of(cuda::CUarray array, ArrayLayout& out);
/// Forgets an array whose memory is freed. Requires driver().mutex.
void forget_arrays(std::uint64_t address);
/// Forgets the arrays of a context that have no memory of their own. Requires driver().mutex.
void clear_unbacked_arrays(const Context* context);

/// An array into which memory may be mapped later.
struct MappableArray {
  std::uint64_t extent[3] = {};  // the size of the level, in elements
  std::uint64_t tile[3] = {};    // the size of a tile of 64 KiB, in elements
  std::uint64_t levels = 1, layers = 1, bytes = 0;
};
/// Finds an array or a level of a mipmapped array. Returns false if `array` is neither. Requires driver().mutex.
bool find_mappable(const void* array, std::uint64_t level, MappableArray& out);
/// Releases everything that is mapped into the array. Requires driver().mutex. Defined in virtual_memory.cpp.
void unmap_array(std::uint64_t array);

}  // namespace ration::sim
