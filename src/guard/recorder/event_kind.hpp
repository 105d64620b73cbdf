#pragma once
// The kinds of events in a recording. Used by the guard, which records, and by everything that reads recordings.
#include <cstdint>

namespace ration::trace {

/// The kind of an event. The numbers are those in the file (docs/recording.md): a number is never used again for
/// something else.
enum class Kind : std::uint8_t {
  kAllocate = 1,       ///< the program got memory: `address`, and `bytes` as requested
  kFree = 2,           ///< the program freed the block at `address`
  kContextMade = 3,    ///< the driver made a context; `charged` is the context's cost
  kContextEnded = 4,   ///< a context ended, with everything in it
  kVirtualCreate = 5,  ///< physical memory was created (`address` is the handle)
  kVirtualRelease = 6,
  kVirtualMap = 7,  ///< a mapping, which takes no memory by itself
  kVirtualUnmap = 8,
  kPoolGrew = 9,      ///< a pool of the driver reserved `bytes` more
  kPoolTrimmed = 10,  ///< a pool of the driver gave `bytes` back
  kGraph = 11,        ///< a launch or an upload took `bytes`
  kExported = 12,     ///< memory was exported for other processes
  kImported = 13,
  kCode = 14,          ///< code (modules and their variables) was loaded or unloaded
  kDenied = 15,        ///< the guard denied a request; `detail` is the number of the denial
  kWaited = 16,        ///< a request waited `detail` milliseconds before it was granted or denied
  kRefused = 17,       ///< a call of the driver failed; `detail` is the driver's error
  kLimitChanged = 18,  ///< `bytes` is the new limit
  kAsked = 19,         ///< the program asked for a figure; `bytes` is the answer, `detail` the function (Asked)
  kMark = 20,          ///< `site` is the text of `ration.mark`
  kRangeBegan = 21,    ///< a range of NVTX; `site` is its name, `address` identifies it (kFirstRange)
  kRangeEnded = 22,
  kProcessBegan = 23,
  kProcessEnded = 24,  ///< a process ended; `charged` is the negative of what the book still had for it
  kHeldBefore = 25,    ///< a process held `charged` bytes when it began to record itself
};

/// The bound between two meanings of `address` in kRangeBegan and kRangeEnded. From this number on, `address` is the
/// number of one range, which any thread may end. Below, `address` is a domain of NVTX; the ranges of one thread in a
/// domain end in the reverse order of their beginnings.
inline constexpr std::uint64_t kFirstRange = std::uint64_t{1} << 63;

/// The account of a workload that an event changes.
enum class Account : std::uint8_t { kDevice = 0, kManaged = 1, kPinnedHost = 2 };

/// The functions by which a program asks for figures, in the `detail` of Kind::kAsked.
enum class Asked : std::uint32_t {
  kFree = 1,   ///< cuMemGetInfo: `bytes` is the free memory in the answer
  kTotal = 2,  ///< cuDeviceTotalMem
  kNvml = 3,   ///< nvmlDeviceGetMemoryInfo: `bytes` is the free memory in the answer
};

}  // namespace ration::trace
