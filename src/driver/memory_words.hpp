// Whether a function of the driver or of NVML may concern device memory, by its name alone. Used by the shim for
// functions that no table lists, and by tests/abi (which reads the two lists below) to demand a reason for each listed
// one that is passed on. Promise: no allocation.
//
// By words rather than by passed_on.tsv: that file gives a reason for each known function, and the reasons name
// families that a later release extends. Every allocator that the driver has ever had is caught by one of these words.
#pragma once

#include <cstring>

namespace ration::driver {

/// A function with one of these in its name may take, return, move or tell device memory.
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

/// Unless the word is the beginning of one of these: copies and fills take nothing.
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
