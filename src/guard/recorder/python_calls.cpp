#include "guard/recorder/python_calls.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "guard/recorder/recorder.hpp"

namespace ration::guard {
namespace {

/// The offsets at which an interpreter keeps the data of a call, in bytes from the beginning of each structure.
struct Layout {
  unsigned version;  // as in Py_Version, without the patch release
  // The thread's state points to the innermost frame, or to a structure (at thread_indirect) that points to it.
  std::size_t thread_indirect, thread_frame;
  std::size_t frame_previous, frame_code, frame_instruction, frame_owner;
  std::size_t code_first_line, code_bytes;
  std::size_t ascii_text, wide_text;  // from the beginning of a string to its characters
};

/// The offsets with 64-bit pointers in CPython 3.11.7, 3.12.1 and 3.13.0, from its internal headers (cpython/code.h,
/// cpython/unicodeobject.h, cpython/pystate.h, internal/pycore_frame.h). Offsets that are the same in all three are
/// constants below.
constexpr Layout kLayouts[] = {
    {0x030b, 56, 8, 48, 32, 56, 69, 72, 184, 48, 72},
    {0x030c, 56, 0, 8, 0, 56, 70, 68, 192, 40, 56},
    {0x030d, 0, 72, 8, 0, 56, 70, 68, 200, 40, 56},
};
constexpr std::size_t kType = 8;
constexpr std::size_t kCodeFile = 112, kCodeQualifiedName = 128, kCodeLines = 136;
constexpr std::size_t kBytesLength = 16, kBytesContent = 32;
constexpr std::size_t kTextLength = 16, kTextState = 32;
constexpr std::uint32_t kTextCompact = 0x20, kTextAscii = 0x40;
/// The lowest value of a frame's owner that means a call of a C function. Lower values mean Python functions.
constexpr std::uint8_t kOwnedByC = 3;

struct Python {
  const Layout* layout = nullptr;
  const void* code_type = nullptr;
  const void* text_type = nullptr;
  /// Returns the state of the calling thread, or null if it runs no Python. Needs no lock.
  const char* (*thread_state)() = nullptr;
  /// Returns true once the interpreter is ending. Its end frees the states of threads that still run.
  int (*is_ending)() = nullptr;
};
Python python;

template <typename Value>
Value at(const char* base, std::size_t offset) noexcept {
  Value value;
  std::memcpy(&value, base + offset, sizeof value);
  return value;
}

/// A text that is built piece by piece.
struct Text {
  std::size_t length = 0;
  char bytes[kMaxText];

  void put(char byte) noexcept {
    if (length < sizeof bytes) bytes[length++] = byte;
  }
  void put_character(std::uint32_t character) noexcept {
    const auto tail = [&](int shift) { put(static_cast<char>(0x80 | (character >> shift & 0x3f))); };
    if (character < 0x80) return put(character < 0x20 ? ' ' : static_cast<char>(character));
    if (character < 0x800) {
      put(static_cast<char>(0xc0 | character >> 6));
      return tail(0);
    }
    if (character < 0x10000) {
      put(static_cast<char>(0xe0 | character >> 12));
    } else {
      put(static_cast<char>(0xf0 | (character >> 18 & 7)));
      tail(12);
    }
    tail(6);
    tail(0);
  }
  /// Adds at most `most` characters of a Python string.
  void put_string(const char* string, std::size_t most) noexcept {
    if (string == nullptr || at<const void*>(string, kType) != python.text_type) return put('?');
    const auto state = at<std::uint32_t>(string, kTextState);
    if ((state & kTextCompact) == 0) return put('?');  // a string of an interface that Python 3.12 removed
    const std::size_t width = state >> 2 & 7;          // bytes per character: 1, 2 or 4
    const char* text = string + ((state & kTextAscii) != 0 ? python.layout->ascii_text : python.layout->wide_text);
    const std::size_t count = std::min(at<std::size_t>(string, kTextLength), most);
    for (std::size_t index = 0; index < count; ++index) {
      std::uint32_t character = 0;
      std::memcpy(&character, text + index * width, std::min(width, sizeof character));
      put_character(character);
    }
  }
};

/// A reader of the line table of a code object. The entries are in the order of the instructions. An entry has the
/// number of instructions that it covers, and the number to add to the line (Objects/locations.md of CPython).
class Lines {
 public:
  Lines(const char* table, int first_line) noexcept
      : next_(reinterpret_cast<const unsigned char*>(table + kBytesContent)),
        end_(next_ + at<std::size_t>(table, kBytesLength)),
        line_(first_line) {}

  /// Returns the line of the instruction at an offset in bytes, or 0 if the instruction has no line.
  int line_of(std::size_t instruction) noexcept {
    std::size_t behind = 0;
    while (next_ < end_) {
      const unsigned first = *next_++;
      behind += ((first & 7) + 1) * 2;
      const unsigned form = first >> 3 & 15;
      if (form == kNoColumns || form == kLong)
        line_ += signed_number();
      else if (form >= kOneLine && form < kNoColumns)
        line_ += static_cast<int>(form - kOneLine);
      while (next_ < end_ && (*next_ & 0x80) == 0) ++next_;  // columns
      if (instruction < behind) return form == kNoLine ? 0 : line_;
    }
    return 0;
  }

 private:
  static constexpr unsigned kOneLine = 10, kNoColumns = 13, kLong = 14, kNoLine = 15;

  int signed_number() noexcept {
    std::uint32_t value = 0;
    for (unsigned shift = 0; next_ < end_ && shift < 30; shift += 6) {
      const unsigned byte = *next_++;
      value |= (byte & 0x3f) << shift;
      if ((byte & 0x40) == 0) break;
    }
    const int size = static_cast<int>(value >> 1);
    return (value & 1) != 0 ? -size : size;
  }

  const unsigned char *next_, *end_;
  int line_;
};

StackFrame call_of(const char* frame, const char* code) noexcept {
  Text text;
  text.put_string(at<const char*>(code, kCodeQualifiedName), 500);
  text.put('\n');
  text.put_string(at<const char*>(code, kCodeFile), 800);
  const std::uint32_t function = number_of_text(TextKind::kPythonFunction, text.bytes, text.length);
  const char* instruction = at<const char*>(frame, python.layout->frame_instruction);
  const auto offset = static_cast<std::size_t>(instruction - (code + python.layout->code_bytes));
  Lines lines(at<const char*>(code, kCodeLines), at<int>(code, python.layout->code_first_line));
  return {static_cast<std::uint64_t>(lines.line_of(offset)), function, kFrameOfPython};
}

/// Returns true if the interpreter runs threads without its global lock. Such an interpreter keeps frames elsewhere.
bool is_free_threaded(const char* runtime) noexcept {
  return runtime != nullptr && std::memcmp(runtime, "xdebugpy", 8) == 0 && at<std::uint64_t>(runtime, 16) != 0;
}

}  // namespace

void find_python() noexcept {
  const auto* version = static_cast<const unsigned long*>(::dlsym(RTLD_DEFAULT, "Py_Version"));
  if (version == nullptr || is_free_threaded(static_cast<const char*>(::dlsym(RTLD_DEFAULT, "_PyRuntime")))) return;
  python.code_type = ::dlsym(RTLD_DEFAULT, "PyCode_Type");
  python.text_type = ::dlsym(RTLD_DEFAULT, "PyUnicode_Type");
  python.thread_state =
      reinterpret_cast<decltype(python.thread_state)>(::dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
  for (const char* name : {"_Py_IsFinalizing", "Py_IsFinalizing"})  // the second since 3.13
    if (auto* found = ::dlsym(RTLD_DEFAULT, name); found != nullptr)
      python.is_ending = reinterpret_cast<decltype(python.is_ending)>(found);
  if (python.code_type == nullptr || python.text_type == nullptr || python.thread_state == nullptr ||
      python.is_ending == nullptr)
    return;
  const auto* known = std::find_if(std::begin(kLayouts), std::end(kLayouts),
                                   [&](const Layout& layout) { return layout.version == *version >> 16; });
  if (known != std::end(kLayouts)) python.layout = known;
}

std::size_t python_calls(StackFrame* frames, std::size_t most) noexcept {
  if (python.layout == nullptr || python.is_ending() != 0) return 0;
  const Layout& layout = *python.layout;
  const char* thread = python.thread_state();
  if (thread != nullptr && layout.thread_indirect != 0) thread = at<const char*>(thread, layout.thread_indirect);
  if (thread == nullptr) return 0;
  std::size_t count = 0;
  const char* frame = at<const char*>(thread, layout.thread_frame);
  for (; frame != nullptr && count < most; frame = at<const char*>(frame, layout.frame_previous)) {
    const char* code = at<const char*>(frame, layout.frame_code);
    if (at<std::uint8_t>(frame, layout.frame_owner) >= kOwnedByC || code == nullptr) continue;
    if (at<const void*>(code, kType) == python.code_type) frames[count++] = call_of(frame, code);
  }
  return count;
}

}  // namespace ration::guard
