// Another process on the same simulated node, told what to do over a socket. Descriptors travel both ways.
#pragma once

#include <unistd.h>

#include <cstdint>

#include "base/descriptor_message.hpp"

namespace ration::testing {

using ration::receive_message;
using ration::send_message;

enum class Order : int {
  kAllocate,     // value: size -> address
  kFree,         // value: address
  kIpcGet,       // value: address -> bytes
  kIpcOpen,      // bytes -> address
  kIpcClose,     // value: address
  kCreate,       // value: size -> handle; descriptor
  kImport,       // descriptor -> handle
  kMap,          // value: handle -> address
  kUnmap,        // value: address
  kRelease,      // value: handle
  kPoolImport,   // descriptor -> pool
  kPoolPointer,  // value: pool, bytes -> address
  kFreeAsync,    // value: address
  kRead,         // value: address -> the word there
  kWrite,        // value: address: writes 42 there
};

struct Message {
  int order = 0;  // in an answer: the driver's result
  std::uint64_t value = 0;
  std::uint64_t size = 0;
  unsigned char bytes[64] = {};
};

}  // namespace ration::testing
