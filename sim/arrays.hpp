// Arrays and mipmapped arrays of the simulated driver: plain memory with a shape. Used by arrays.cpp and the copies.
#pragma once

#include "driver.hpp"

namespace ration::sim {

/// How an array lies in memory: rows of `row` bytes without padding, `height` of them a slice, `depth` slices.
struct ArrayLayout {
  std::uint64_t address = 0;
  std::uint64_t row = 0, height = 1, depth = 1;
};

/// False: the handle is not an array.
bool layout_of(cuda::CUarray array, ArrayLayout& out);
/// The memory of an array is gone. Under driver().mutex.
void forget_arrays(std::uint64_t address);
/// The arrays of a context that have no memory of their own are gone. Under driver().mutex.
void clear_unbacked_arrays(const Context* context);

/// What may be mapped into an array that was made for it.
struct MappableArray {
  std::uint64_t extent[3] = {};  // of the level, in elements
  std::uint64_t tile[3] = {};    // elements of one tile of 64 KiB
  std::uint64_t levels = 1, layers = 1, bytes = 0;
};
/// False: `array` is none, or a level of one. Under driver().mutex.
bool find_mappable(const void* array, std::uint64_t level, MappableArray& out);
/// Everything that is mapped into the array is let go. Under driver().mutex. In virtual_memory.cpp.
void unmap_array(std::uint64_t array);

}  // namespace ration::sim
