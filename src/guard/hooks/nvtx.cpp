// Functions of NVTX, which record the ranges and marks that programs and their libraries set
// (`torch.cuda.nvtx.range_push`). `ration run --record` gives NVTX the path of a library that connects NVTX to these
// functions (nvtx_tool.cpp). The layout of NVTX's tables and attributes is that of its headers, version 3:
// nvtxDetail/nvtxTypes.h and nvToolsExt.h.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "guard/environment.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/recorder/recorder.hpp"

namespace ration::guard {
namespace {

using Kind = trace::Kind;

// ---------------------------------------------------------------------------------------------------- NVTX's interface

using Function = void (*)();
using Tables = const void* (*)(std::uint32_t);
constexpr std::uint32_t kCallbacks = 1;  // NVTX_ETID_CALLBACKS
enum class Module : int { kCore = 1, kCore2 = 5 };
struct Callbacks {
  std::size_t size;
  /// Sets `places` to the array in which NVTX keeps pointers to its functions, by their number. Returns 0 if NVTX has
  /// no such array.
  int (*functions)(Module module, Function*** places, unsigned* count);
};

enum class MessageType : std::int32_t { kNone = 0, kText = 1, kWide = 2, kRegistered = 3 };
struct Attributes {
  std::uint16_t version, size;
  std::uint32_t category;
  std::int32_t colour_type;
  std::uint32_t colour;
  std::int32_t payload_type, reserved;
  std::uint64_t payload;
  MessageType message_type;
  const void* message;
};
static_assert(sizeof(Attributes) == 48 && offsetof(Attributes, message_type) == 32 &&
              offsetof(Attributes, message) == 40);

/// The number of a domain, which programs see as a pointer; 0 is the default domain.
using Domain = std::uintptr_t;
constexpr int kNotTracked = -2;  // NVTX_NO_PUSH_POP_TRACKING: the depth is not counted

// --------------------------------------------------------------------------------------------------------------- names

constexpr std::size_t kMostName = 1024;
/// The most names of ranges that a process records; later names are left out. Tools name ranges after single calls
/// ("mm, seq = 1234"), so the number of names has no bound.
constexpr std::uint32_t kMostNames = 1 << 16;

/// The texts that programs registered. They stay as long as the process, because an ended domain may still be recorded.
struct Registered {
  char texts[std::size_t{1} << 20];
  std::atomic<std::size_t> used;
};
Registered registered;

std::uint32_t number_of(const char* name) noexcept {
  return name != nullptr ? number_of_text(TextKind::kName, name, ::strnlen(name, kMostName), kMostNames) : 0;
}

/// Writes wide characters as UTF-8 into `out`, which has room for `size` bytes, and ends it with a zero.
void to_utf8(const wchar_t* wide, char* out, std::size_t size) noexcept {
  std::size_t length = 0;
  for (; *wide != 0 && length + 4 < size; ++wide) {
    const auto code = static_cast<std::uint32_t>(*wide);
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr std::uint32_t kFirst[] = {0, 0xc0, 0xe0, 0xf0};
    out[length++] = static_cast<char>(kFirst[more] | code >> 6 * more);
    for (int at = more; at-- > 0;) out[length++] = static_cast<char>(0x80 | (code >> 6 * at & 0x3f));
  }
  out[length] = 0;
}

std::uint32_t number_of(const wchar_t* name) noexcept {
  char text[kMostName];
  if (name == nullptr) return 0;
  to_utf8(name, text, sizeof text);
  return number_of(text);
}

std::uint32_t number_of(const Attributes* attributes) noexcept {
  if (attributes == nullptr || attributes->size < sizeof *attributes) return 0;
  const void* message = attributes->message;
  switch (attributes->message_type) {
    case MessageType::kText:
      return number_of(static_cast<const char*>(message));
    case MessageType::kWide:
      return number_of(static_cast<const wchar_t*>(message));
    case MessageType::kRegistered: {
      const auto* text = static_cast<const char*>(message);
      const bool is_ours = text >= registered.texts && text < registered.texts + sizeof registered.texts;
      return is_ours ? number_of(text) : 0;
    }
    default:
      return 0;
  }
}

/// Keeps a text. Returns the handle for it, or null if there is no room.
const char* keep(const char* text) noexcept {
  if (text == nullptr) return nullptr;
  const std::size_t length = ::strnlen(text, kMostName - 1);
  std::size_t at = registered.used.load(std::memory_order_relaxed);
  do {
    if (at + length + 1 > sizeof registered.texts) return nullptr;
  } while (!registered.used.compare_exchange_weak(at, at + length + 1, std::memory_order_relaxed));
  std::memcpy(registered.texts + at, text, length);
  return registered.texts + at;  // `texts` is zero at first, so a zero ends the text
}

// -------------------------------------------------------------------------------------------------------------- events

void write(Kind kind, std::uint32_t site, std::uint64_t number) noexcept {
  RecordedEvent event{};
  event.kind = kind;
  event.site = site;
  event.address = number;
  record(event);
}

bool wanted() noexcept { return governed() && recording(); }

/// The number of the newest range that any thread may end. A range that only its own thread may end has the number of
/// its domain instead.
std::atomic<std::uint64_t> last_range{trace::kFirstRange};

template <typename Name>
void mark(Name name) noexcept {
  if (wanted()) write(Kind::kMark, number_of(name), 0);
}
template <typename Name>
int push(Domain domain, Name name) noexcept {
  if (wanted()) begin_range(number_of(name), domain);
  return kNotTracked;
}
int pop(Domain domain) noexcept {
  if (wanted()) end_range(domain);
  return kNotTracked;
}
template <typename Name>
std::uint64_t start(Name name) noexcept {
  const std::uint64_t number = last_range.fetch_add(1, std::memory_order_relaxed) + 1;
  if (wanted()) write(Kind::kRangeBegan, number_of(name), number);
  return number;
}
void end(std::uint64_t number) noexcept {
  if (number >= trace::kFirstRange && wanted()) write(Kind::kRangeEnded, 0, number);
}

Domain make_domain() noexcept {
  static std::atomic<Domain> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

struct Entry {
  unsigned number;
  Function function;
};
template <typename Taken>
Function function(Taken* taken) noexcept {
  return reinterpret_cast<Function>(taken);
}

template <std::size_t N>
void install(const Callbacks& callbacks, Module module, const Entry (&entries)[N]) noexcept {
  Function** places = nullptr;
  unsigned count = 0;
  if (callbacks.functions(module, &places, &count) == 0 || places == nullptr) return;
  for (const Entry& entry : entries)
    if (entry.number < count && places[entry.number] != nullptr) *places[entry.number] = entry.function;
}

/// Replaces NVTX's functions by the functions of this file.
void take_calls(const Callbacks& callbacks) noexcept {
  /// The functions by their number in NvtxCallbackIdCore.
  const Entry core[] = {
      {1, function(+[](const Attributes* name) { mark(name); })},
      {2, function(+[](const char* name) { mark(name); })},
      {3, function(+[](const wchar_t* name) { mark(name); })},
      {4, function(+[](const Attributes* name) { return start(name); })},
      {5, function(+[](const char* name) { return start(name); })},
      {6, function(+[](const wchar_t* name) { return start(name); })},
      {7, function(+[](std::uint64_t number) { end(number); })},
      {8, function(+[](const Attributes* name) { return push(0, name); })},
      {9, function(+[](const char* name) { return push(0, name); })},
      {10, function(+[](const wchar_t* name) { return push(0, name); })},
      {11, function(+[] { return pop(0); })},
  };
  /// The functions by their number in NvtxCallbackIdCore2.
  const Entry core2[] = {
      {1, function(+[](Domain, const Attributes* name) { mark(name); })},
      {2, function(+[](Domain, const Attributes* name) { return start(name); })},
      {3, function(+[](Domain, std::uint64_t number) { end(number); })},
      {4, function(+[](Domain domain, const Attributes* name) { return push(domain, name); })},
      {5, function(+[](Domain domain) { return pop(domain); })},
      {10, function(+[](Domain, const char* text) { return keep(text); })},
      {11, function(+[](Domain, const wchar_t* wide) {
         char text[kMostName];
         if (wide == nullptr) return keep(nullptr);
         to_utf8(wide, text, sizeof text);
         return keep(text);
       })},
      {12, function(+[](const char*) { return make_domain(); })},
      {13, function(+[](const wchar_t*) { return make_domain(); })},
  };
  install(callbacks, Module::kCore, core);
  install(callbacks, Module::kCore2, core2);
}

}  // namespace
}  // namespace ration::guard

/// Connects one copy of NVTX to the functions of this file. Returns 0 in a process that is not recorded; the copy then
/// does nothing from now on.
extern "C" [[gnu::visibility("default")]] int ration_shim_nvtx(ration::guard::Tables tables) {
  using namespace ration::guard;
  if (tables == nullptr || environment().record[0] == '\0') return 0;
  const auto* callbacks = static_cast<const Callbacks*>(tables(kCallbacks));
  if (callbacks == nullptr || callbacks->size < sizeof *callbacks || callbacks->functions == nullptr) return 0;
  take_calls(*callbacks);
  return 1;
}
