#pragma once
// A part of a recording as it lies in its file: what one process of a workload writes while it runs, and what readers
// find even after it was killed. Used by the recorder and by src/trace. docs/recording.md describes it byte by byte.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guard/recorder/event_kind.hpp"

namespace ration::guard {

inline constexpr char kPartMagic[8] = {'r', 'a', 't', 'i', 'o', 'n', 'P', '1'};
inline constexpr const char* kPartEnding = ".part";
/// The file, with the header of a part alone, where processes without a part count what they lose.
inline constexpr const char* kLostFile = "lost";
/// The variable that names the library which gets NVTX's calls, and that of ration.
inline constexpr const char* kNvtxVariable = "NVTX_INJECTION64_PATH";
inline constexpr const char* kNvtxLibrary = "libration-nvtx.so";
inline constexpr std::uint32_t kPartVersion = 2;
inline constexpr std::uint32_t kChunkMagic = 0x6b6e6843;  // "Chnk"
inline constexpr std::size_t kPartHeaderSize = 4096;
inline constexpr std::size_t kChunkSize = std::size_t{64} << 10;
inline constexpr std::size_t kPartAccounts = 16;

/// One moment on three clocks. `ticks` is what records have: the processor's counter, or the nanoseconds of
/// `monotonic_ns` where that counter does not run evenly.
struct Anchor {
  std::uint64_t ticks;
  std::uint64_t monotonic_ns;  // CLOCK_MONOTONIC_RAW
  std::uint64_t unix_ns;       // CLOCK_REALTIME
};

/// The beginning of a part.
struct PartHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t account_count;
  std::int32_t pid;
  std::int32_t parent;
  std::uint32_t counts_nanoseconds;  // 1 if ticks are nanoseconds
  std::uint32_t is_of_nvml;          // 1 if the guard of NVML wrote it, which only knows what was asked
  Anchor began;
  Anchor ended;                             // written when the process exits; zeros if it was killed, or runs
  std::atomic<std::uint64_t> next;          // the offset of the next chunk or copy
  std::atomic<std::uint64_t> space;         // the bytes of the file that are reserved
  std::atomic<std::uint64_t> lost;          // events that could not be written
  std::atomic<std::uint32_t> reason;        // the error of the system by which they were lost
  std::atomic<std::uint32_t> has_common;    // 1 once a charge to no single process was recorded
  std::uint8_t devices[kPartAccounts][16];  // UUIDs by account
  std::atomic<std::uint32_t> texts;         // texts that the part has
  char command[512];                        // the command line, its words separated by spaces
  std::uint32_t has_other_nvtx;             // 1 if NVTX gives its ranges to another program, by NVTX_INJECTION64_PATH
};
static_assert(sizeof(PartHeader) <= kPartHeaderSize && offsetof(PartHeader, began) == 32 &&
              offsetof(PartHeader, next) == 80 && offsetof(PartHeader, devices) == 112);

/// The beginning of a chunk, which belongs to one thread. Records follow until the first without a time, or the end.
///
/// A thread fills one chunk, its home, again and again. When the home is full, the thread appends a copy to the file,
/// counts the copy in `copied`, empties the home and raises `fill`. So a copy counts if its `fill` is below `copied` of
/// its home, and a home counts unless its own `fill` is: then the thread was emptying it.
struct ChunkHeader {
  std::uint32_t magic;
  std::uint32_t thread;
  Anchor began;                       // when this fill began
  std::uint64_t home;                 // offset of the home: its own, unless this is a copy
  std::atomic<std::uint64_t> fill;    // how often the home was full before
  std::atomic<std::uint64_t> copied;  // complete copies of the home; has no meaning in a copy
  std::uint64_t unused;
};
static_assert(sizeof(ChunkHeader) == 64 && offsetof(ChunkHeader, home) == 32);

/// One event. `ticks` is written last: a record without it is not complete, and was the thread's last.
struct RawRecord {
  std::atomic<std::uint64_t> ticks;
  std::uint64_t address;  // or `detail` of the kinds that have no address
  std::uint64_t what;     // bytes << 16 | place << 8 | kind
  std::uint64_t rest;     // charge in pages of 4 KiB << 32 | site
};
static_assert(sizeof(RawRecord) == 32 && kChunkSize % sizeof(RawRecord) == 0);

/// `place` of a record: the account of the device in the low four bits, then trace::Account, then flags.
inline constexpr std::uint8_t kPlaceDevice = 0x0f;
inline constexpr int kPlaceAccount = 4;
inline constexpr std::uint8_t kPlaceCommon = 0x40;  // memory that is charged to no single process
/// The next record has what did not fit: in `address` the whole charge in bytes, in `what` the stream.
inline constexpr std::uint8_t kPlaceMore = 0x80;

/// The kind of a record that gives a number to a text: `address` is the number, the bytes of `what` are the length of
/// the text, which fills the records behind it; `rest` is its TextKind.
inline constexpr std::uint8_t kTextRecord = 255;
inline constexpr std::uint32_t kMaxTexts = 1 << 20;
enum class TextKind : std::uint64_t {
  kName = 1,            // of a mark or a range
  kStack = 2,           // StackFrames, the innermost first
  kModule = 3,          // the path of a program or a library
  kPythonFunction = 4,  // its qualified name, a newline, and its file
};
inline constexpr std::size_t kMaxText = 4096;

/// One call of a stack.
struct StackFrame {
  std::uint64_t offset;  // of the call in the file of its module, as its symbols count; without one, its address; of
                         // Python the line, or 0
  std::uint32_t module;  // number of the text that has its path, or of Python its function; 0: none
  std::uint32_t language;
};
inline constexpr std::uint32_t kFrameOfPython = 1;  // StackFrame::language; others are 0
static_assert(sizeof(StackFrame) == 16);

inline constexpr int kShiftOfPage = 12;
inline constexpr std::uint64_t kPageOfCharge = std::uint64_t{1} << kShiftOfPage;
/// The most bytes that a record can have; it stands for all larger numbers, such as that of no limit.
inline constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 48) - 1;

}  // namespace ration::guard
