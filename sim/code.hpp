// The code that is loaded in each context. The code of a context takes whole granules of the device: as many as its
// images would take without gaps between them, in whatever order images are unloaded. The contents and addresses of
// code lie in host memory. Used by modules.cpp, under driver().mutex.
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
  unsigned capability = 0;  // the compute capability that it was compiled for, such as 80 for 8.0; 0: any
  std::unordered_map<std::string, Global> globals;
  std::vector<std::pair<std::uint64_t, std::string>> values;  // the initial values of variables, by offset
};
using SharedCode = std::shared_ptr<const Code>;

/// Reads an image for a device, from an address or from the bytes of a file. Returns CUDA_ERROR_INVALID_IMAGE if the
/// size of the image cannot be determined.
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
