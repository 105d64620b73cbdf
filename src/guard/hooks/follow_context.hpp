// The treatment of blocks whose context ends while they are made. Used by the hooks that charge a block by its address.
#pragma once

#include "guard/hooks/governor.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/table.hpp"

namespace ration::guard {

/// Returns true if the driver has a block of at least that size that begins at that address. After a block was freed,
/// something else may lie there, such as the code of a library that was loaded again.
inline bool is_there(cuda::CUdeviceptr address, std::uint64_t size) noexcept {
  cuda::CUdeviceptr start = 0;
  std::size_t found = 0;
  return real<cuda::cuMemGetAddressRange_v2_t>(Symbol::cuMemGetAddressRange_v2)(&start, &found, address) ==
             cuda::CUDA_SUCCESS &&
         start == address && found >= size;
}

/// Settles a new block whose context another thread ended meanwhile. The block either ended with the context, or it
/// lies in the context's successor, for example a primary context that was reset and retained again. Calls
/// `refund(address, block)` if the block is gone.
template <typename Block, typename Refund>
[[gnu::noinline]] void follow_context(Table<Block>& blocks, cuda::CUdeviceptr address, Place place,
                                      Refund&& refund) noexcept {
  while (contexts_changed_since(place) && !context_lives(place.context)) {
    const Place now = current_place();
    Block known, gone;
    const bool there = now.context != 0 && blocks.find(address, known) && is_there(address, known.size);
    blocks.update(address, [&](Block& block) {
      if (block.size == 0 || block.context != place.context) return block.size != 0;
      if (there)
        block.context = now.context;
      else
        gone = block;
      return there;
    });
    if (gone.size > 0) refund(address, gone);
    if (!there) return;
    place = now;
  }
}

/// Refunds the blocks of an ended context that the driver no longer reports: see blocks_of_context_are_gone().
template <typename Block, typename Refund>
void end_blocks(Table<Block>& blocks, std::uint64_t context, std::uint64_t now, Refund&& refund) noexcept {
  blocks.remove_if([&](std::uint64_t address, Block& block) {
    if (block.context != context) return false;
    if (now != 0 && is_there(address, block.size)) {
      block.context = now;
      return false;
    }
    refund(address, block);
    return true;
  });
}

}  // namespace ration::guard
