// Decides by a function's name alone whether it may concern device memory. Used by the guard for functions of the
// driver and NVML that no table lists, and by tests/abi, which reads the two lists below and demands a reason for each
// listed function that is passed on. Promise: no allocation.
//
// passed_on.tsv does not decide, because it gives reasons for known functions only: its expressions also match names of
// functions that later releases of the driver add. Every allocator that the driver has ever had contains one of these
// words.
#pragma once

#include <cstring>

namespace ration::driver {

/// The words of a function that may take, return, move or report device memory.
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

/// The exceptions: a memory word at the beginning of one of these is part of the name of a copy or fill, which takes no
/// memory.
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
