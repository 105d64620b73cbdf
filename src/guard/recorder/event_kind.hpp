#pragma once
// What an event of a recording says. Used by the guard, which records, and by everything that reads recordings.
#include <cstdint>

namespace ration::trace {

/// What happened. The numbers are those of the file (docs/recording.md): a value is never used again for something
/// else.
enum class Kind : std::uint8_t {
  kAllocate = 1,       ///< memory for the program: `address`, `bytes` requested
  kFree = 2,           ///< of the block at `address`
  kContextMade = 3,    ///< of the driver; `charged` is its cost
  kContextEnded = 4,   ///< with all that lived in it
  kVirtualCreate = 5,  ///< physical memory by handle (`address` is the handle)
  kVirtualRelease = 6,
  kVirtualMap = 7,  ///< takes nothing by itself
  kVirtualUnmap = 8,
  kPoolGrew = 9,      ///< a pool of the driver reserved `bytes` more
  kPoolTrimmed = 10,  ///< a pool of the driver gave `bytes` back
  kGraph = 11,        ///< a launch or an upload took `bytes`
  kExported = 12,     ///< for other processes
  kImported = 13,
  kCode = 14,          ///< modules and their variables
  kDenied = 15,        ///< by the guard; `detail` is the number of the denial
  kWaited = 16,        ///< `detail` milliseconds, before the request was granted or denied
  kRefused = 17,       ///< by the driver; `detail` is its error
  kLimitChanged = 18,  ///< `bytes` is the new limit
  kAsked = 19,         ///< how much there is; `bytes` is what was answered, `detail` the function (Asked)
  kMark = 20,          ///< `site` is the text of `ration.mark`
  kRangeBegan = 21,    ///< NVTX; `site` is its name, `address` tells it from others (kFirstRange)
  kRangeEnded = 22,
  kProcessBegan = 23,
  kProcessEnded = 24,  ///< with all that it held; `charged` is what the book still had of it, negated
  kHeldBefore = 25,    ///< memory that a process had when it began to record itself: `charged`
};

/// The address of kRangeBegan and kRangeEnded: from this number on that of one range, which any thread may end; below,
/// that of a domain of NVTX, in which the ranges of each thread end in the order opposite to that of their beginning.
inline constexpr std::uint64_t kFirstRange = std::uint64_t{1} << 63;

/// The account of a workload that an event changes.
enum class Account : std::uint8_t { kDevice = 0, kManaged = 1, kPinnedHost = 2 };

/// The functions that a program asked, in the `detail` of Kind::kAsked.
enum class Asked : std::uint32_t {
  kFree = 1,   ///< cuMemGetInfo: `bytes` is what it called free
  kTotal = 2,  ///< cuDeviceTotalMem
  kNvml = 3,   ///< nvmlDeviceGetMemoryInfo: `bytes` is what it called free
};

}  // namespace ration::trace
