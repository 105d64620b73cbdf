// Loaded code: which part of it lies in which context. The images of one context lie side by side in its granules,
// packed without gaps in whatever order they are unloaded: the bytes are the device's, but contents and addresses are
// the host's. Used by modules.cpp, under driver().mutex.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver.hpp"

namespace ration::sim {

struct Global {
  std::uint64_t offset = 0, size = 0;  // place within the image
};

/// The content of an image, independent of where it is loaded.
struct Code {
  std::uint64_t size = 0;   // size on the device
  unsigned capability = 0;  // that it was compiled for, 80 for 8.0; 0: any
  std::unordered_map<std::string, Global> globals;
  std::vector<std::pair<std::uint64_t, std::string>> values;  // the initial values of variables, by offset
};
using SharedCode = std::shared_ptr<const Code>;

/// Reads an image for a device, from an address or from the bytes of a file. Returns CUDA_ERROR_INVALID_IMAGE if its
/// size cannot be determined.
cuda::CUresult read_code(const void* image, int device, SharedCode& out);
cuda::CUresult read_code(const std::string& file, int device, SharedCode& out);

/// Code in a context. It takes no device memory if its image declares no size.
struct Placed {
  SharedCode code;
  std::uint64_t address = 0;  // 0: no address
};

/// Places code in a context. Returns false if the device is full.
bool place_code(Context* context, const SharedCode& code, Placed& out);
void remove_code(Context* context, const Placed& placed);

/// Forgets all code of a context that ends; clear_context() frees its blocks.
void forget_code(const Context* context);

}  // namespace ration::sim
