// Decides by its name alone whether a function of the driver or of NVML may concern device memory. Used by the guard
// for functions that no table lists, and by tests/abi (which reads the two lists below) to demand a reason for each
// listed one that is passed on. Promise: no allocation.
//
// It uses words rather than passed_on.tsv: that file gives a reason for each known function, and the reasons name
// families that a later release extends. Every allocator that the driver has ever had contains one of these words.
#pragma once

#include <cstring>

namespace ration::driver {

/// A function with one of these in its name may take, return, move or report device memory.
inline constexpr const char* kMemoryWords[] = {"Alloc",
                                               "Free",
                                               "Mem",
                                               "Array",
                                               "Pool",
                                               "Import",
                                               "Export",
                                               "Ipc",
                                               "Multicast",
                                               "External",
                                               "Graphics",
                                               "Endpoint",
                                               "Checkpoint",
                                               "CtxCreate",
                                               "CtxDestroy",
                                               "PrimaryCtx",
                                               "GraphLaunch",
                                               "GraphUpload",
                                               "GraphInstantiate",
                                               "GraphAddNode",
                                               "Capture",
                                               "Module",
                                               "Library"};

/// Exceptions: if the word begins one of these, it is a copy or fill, which takes nothing.
inline constexpr const char* kHarmlessWords[] = {"Memcpy", "Memset"};

inline bool may_concern_memory(const char* name) noexcept {
  for (const char* word : kMemoryWords) {
    for (const char* at = std::strstr(name, word); at != nullptr; at = std::strstr(at + 1, word)) {
      bool harmless = false;
      for (const char* longer : kHarmlessWords) harmless |= std::strncmp(at, longer, std::strlen(longer)) == 0;
      if (!harmless) return true;
    }
  }
  return false;
}

}  // namespace ration::driver
