// What becomes of a block whose context ends while it is made. Used by the hooks that charge a block by its address.
#pragma once

#include "shim/hooks/governor.hpp"
#include "shim/hooks/hooks.hpp"
#include "shim/hooks/table.hpp"

namespace ration::shim {

/// Whether the driver has a block that begins at that address.
inline bool is_there(cuda::CUdeviceptr address) noexcept {
  cuda::CUdeviceptr start = 0;
  std::size_t size = 0;
  return real<cuda::cuMemGetAddressRange_v2_t>(Symbol::cuMemGetAddressRange_v2)(&start, &size, address) ==
             cuda::CUDA_SUCCESS &&
         start == address;
}

/// The context of a new block ended while it was made, by another thread: the block went with it, or it is in the one
/// that has its place by now, as a primary context that is reset and retained again. `refund(address, block)` is called
/// for one that is gone.
template <typename Block, typename Refund>
[[gnu::noinline]] void follow_context(Table<Block>& blocks, cuda::CUdeviceptr address, Place place,
                                      Refund&& refund) noexcept {
  while (contexts_changed_since(place) && !context_lives(place.context)) {
    const Place now = current_place();
    const bool there = now.context != 0 && is_there(address);
    Block gone;
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

/// Refunds the blocks of a context that ended, as the driver's word for each shows: see blocks_of_context_are_gone().
template <typename Block, typename Refund>
void end_blocks(Table<Block>& blocks, std::uint64_t context, std::uint64_t now, Refund&& refund) noexcept {
  blocks.remove_if([&](std::uint64_t address, Block& block) {
    if (block.context != context) return false;
    if (now != 0 && is_there(address)) {
      block.context = now;
      return false;
    }
    refund(address, block);
    return true;
  });
}

}  // namespace ration::shim
