#pragma once
// A part of a recording as it lies in its file. One process of a workload writes a part while it runs. Readers can read
// the part even after the process was killed. Used by the recorder and by src/trace. docs/recording.md describes a part
// byte by byte.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guard/recorder/event_kind.hpp"

namespace ration::guard {

inline constexpr char kPartMagic[8] = {'r', 'a', 't', 'i', 'o', 'n', 'P', '1'};
inline constexpr const char* kPartEnding = ".part";
/// The name of the file in which processes without a part count the events that they lose. The file has only the header
/// of a part.
inline constexpr const char* kLostFile = "lost";
/// The environment variable that names the library which gets NVTX's calls, and the name of ration's own library.
inline constexpr const char* kNvtxVariable = "NVTX_INJECTION64_PATH";
inline constexpr const char* kNvtxLibrary = "libration-nvtx.so";
inline constexpr std::uint32_t kPartVersion = 2;
inline constexpr std::uint32_t kChunkMagic = 0x6b6e6843;  // "Chnk"
inline constexpr std::size_t kPartHeaderSize = 4096;
inline constexpr std::size_t kChunkSize = std::size_t{64} << 10;
inline constexpr std::size_t kPartAccounts = 16;

/// One moment on three clocks. `ticks` is the time in records: the processor's counter, or the nanoseconds of
/// `monotonic_ns` if that counter does not run at a constant rate.
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
  std::uint32_t is_of_nvml;          // 1 if NVML's guard wrote the part, which then has only queries
  Anchor began;
  Anchor ended;                             // written when the process exits; zeros if it still runs or was killed
  std::atomic<std::uint64_t> next;          // the offset of the next chunk or copy
  std::atomic<std::uint64_t> space;         // the bytes of the file that are reserved
  std::atomic<std::uint64_t> lost;          // events that could not be written
  std::atomic<std::uint32_t> reason;        // the errno value of the newest loss
  std::atomic<std::uint32_t> has_common;    // 1 once a charge that belongs to no single process was recorded
  std::uint8_t devices[kPartAccounts][16];  // UUIDs by account
  std::atomic<std::uint32_t> texts;         // the number of texts in the part
  char command[512];                        // the command line, its words separated by spaces
  std::uint32_t has_other_nvtx;             // 1 if NVTX_INJECTION64_PATH names another library, which gets the ranges
};
static_assert(sizeof(PartHeader) <= kPartHeaderSize && offsetof(PartHeader, began) == 32 &&
              offsetof(PartHeader, next) == 80 && offsetof(PartHeader, devices) == 112);

/// The beginning of a chunk, which belongs to one thread. Records follow the header, up to the first record without a
/// time, or to the chunk's end.
///
/// A thread fills one chunk, its home, again and again. When the home is full, the thread appends a copy to the file,
/// counts the copy in `copied`, empties the home and raises `fill`. So a copy counts only if its `fill` is lower than
/// the `copied` of its home. A home does not count if its own `fill` is lower than its `copied`: the thread was then
/// just emptying the home.
struct ChunkHeader {
  std::uint32_t magic;
  std::uint32_t thread;
  Anchor began;                       // when this fill began
  std::uint64_t home;                 // offset of the home; in the home itself, its own offset
  std::atomic<std::uint64_t> fill;    // how often the home was full before
  std::atomic<std::uint64_t> copied;  // complete copies of the home; has no meaning in a copy
  std::uint64_t unused;
};
static_assert(sizeof(ChunkHeader) == 64 && offsetof(ChunkHeader, home) == 32);

/// One event. `ticks` is written last: a record without `ticks` is incomplete, and no other record of its thread
/// follows it.
struct RawRecord {
  std::atomic<std::uint64_t> ticks;
  std::uint64_t address;  // or the `detail` of a kind without an address
  std::uint64_t what;     // bytes << 16 | place << 8 | kind
  std::uint64_t rest;     // charge in pages of 4 KiB << 32 | site
};
static_assert(sizeof(RawRecord) == 32 && kChunkSize % sizeof(RawRecord) == 0);

/// `place` of a record: the device's index in the low four bits, then trace::Account, then flags.
inline constexpr std::uint8_t kPlaceDevice = 0x0f;
inline constexpr int kPlaceAccount = 4;
inline constexpr std::uint8_t kPlaceCommon = 0x40;  // memory that is charged to no single process
/// The flag of a record whose next record has the data that did not fit: the whole charge in bytes in `address`, the
/// stream in `what`.
inline constexpr std::uint8_t kPlaceMore = 0x80;

/// The kind of a record that gives a number to a text. `address` is the number, the bytes in `what` are the length of
/// the text, and `rest` is its TextKind. The text fills the records that follow.
inline constexpr std::uint8_t kTextRecord = 255;
inline constexpr std::uint32_t kMaxTexts = 1 << 20;
enum class TextKind : std::uint64_t {
  kName = 1,            // the name of a mark or a range
  kStack = 2,           // StackFrames, the innermost first
  kModule = 3,          // the path of a program or a library
  kPythonFunction = 4,  // the function's qualified name, a newline, and its file
};
inline constexpr std::size_t kMaxText = 4096;

/// One call of a stack. For a call of Python, `offset` is the line (0 if unknown), and `module` the number of the text
/// with the function.
struct StackFrame {
  std::uint64_t offset;  // the call's address as the symbols of its module count it; the plain address without a module
  std::uint32_t module;  // the number of the text with the module's path; 0 if there is no module
  std::uint32_t language;
};
inline constexpr std::uint32_t kFrameOfPython = 1;  // the value of StackFrame::language; other calls have 0
static_assert(sizeof(StackFrame) == 16);

inline constexpr int kShiftOfPage = 12;
inline constexpr std::uint64_t kPageOfCharge = std::uint64_t{1} << kShiftOfPage;
/// The largest number of bytes in a record. It stands for all larger numbers too, such as the one for no limit.
inline constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 48) - 1;

}  // namespace ration::guard
