// Arrays and mipmapped arrays of the simulated driver: plain memory with a shape. Used by arrays.cpp and the copies.
#pragma once

#include "driver.hpp"

namespace ration::sim {

/// How an array lies in memory: rows of `row` bytes without padding, `height` of them a slice, `depth` slices.
struct ArrayLayout {
  std::uint64_t address = 0;
  std::uint64_t row = 0, height = 1, depth = 1;
};

/// False: the handle is no array.
bool layout_of(cuda::CUarray array, ArrayLayout& out);
/// The memory of an array is gone. Under driver().mutex.
void forget_arrays(std::uint64_t address);

}  // namespace ration::sim
