// Loaded code: what of it lies in which context. Images of one context lie side by side in granules of it, packed
// without a gap whatever is unloaded in which order: the bytes are the device's, their contents and addresses are the
// host's. Used by modules.cpp. Called under driver().mutex.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver.hpp"

namespace ration::sim {

struct Global {
  std::uint64_t offset = 0, size = 0;  // within the image
};

/// The content of an image, independent of where it is loaded.
struct Code {
  std::uint64_t size = 0;  // on the device
  std::unordered_map<std::string, Global> globals;
  std::vector<std::pair<std::uint64_t, std::string>> values;  // of variables, by their offsets
};
using SharedCode = std::shared_ptr<const Code>;

/// Reads the image at that address for a device, or one whose bytes are all given. CUDA_ERROR_INVALID_IMAGE: its size
/// cannot be determined.
cuda::CUresult read_code(const void* image, int device, SharedCode& out);
cuda::CUresult read_code(const std::string& file, int device, SharedCode& out);

/// Code in a context. It takes no device memory if its image declares no size.
struct Placed {
  SharedCode code;
  std::uint64_t address = 0;  // 0: it has none
};

/// Returns false if the device is full.
bool place_code(Context* context, const SharedCode& code, Placed& out);
void remove_code(Context* context, const Placed& placed);

/// Frees all code of a context that ends; clear_context() frees its blocks.
void forget_code(const Context* context);

}  // namespace ration::sim
