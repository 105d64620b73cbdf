// What a recording tells about a program's memory: its peak and what it consisted of, what was never freed, how large
// blocks were and how long they lived, what was asked and what was denied. Used by `ration inspect`; exports have the
// same numbers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/event.hpp"

namespace ration::trace {

/// The use of charged bytes.
enum class Use : std::uint8_t { kBlocks, kPools, kVirtual, kContexts, kCode, kManaged, kShared, kHost };
inline constexpr std::size_t kUses = 8;
[[nodiscard]] const char* name_of(Use use);
/// Returns the use of the bytes that an event charges or refunds.
[[nodiscard]] Use use_of(const Event& event, const Header& header);

/// A place whose bytes add up: a device with its managed memory, or pinned host memory.
struct Place {
  bool is_host = false;
  std::uint16_t device = 0;

  [[nodiscard]] auto operator<=>(const Place&) const = default;
};
[[nodiscard]] inline Place place_of(const Event& event) {
  return event.account == Account::kPinnedHost ? Place{true, 0} : Place{false, event.device};
}

/// The bytes of one use and process at a moment.
struct Part {
  Use use = Use::kBlocks;
  std::uint32_t process = 0;
  std::int64_t charged = 0;
};

/// Blocks alike: of one process, size and call site.
struct Group {
  std::uint32_t process = 0;
  std::uint32_t site = 0;
  std::uint64_t bytes = 0;  ///< of one block
  std::uint64_t count = 0;
  std::int64_t first = 0, last = 0;  ///< when the first and the last of them were taken
  std::uint64_t marks = 0;           ///< in how many of the spans between two marks they were taken
  [[nodiscard]] std::uint64_t total() const { return bytes * count; }
};

/// What one place held at its peak, or at the time that was asked for.
struct Held {
  Place place;
  std::int64_t time = 0;
  std::int64_t charged = 0;
  std::int64_t at_end = 0;             ///< before the last process ended
  std::uint64_t requested = 0;         ///< live bytes of blocks, as the program asked for them
  std::vector<Part> parts;             ///< the largest first
  std::vector<Group> largest;          ///< live blocks, the largest groups first
  std::string mark;                    ///< the newest mark before it
  std::vector<std::int64_t> timeline;  ///< the most that was held in each of kColumns spans of the recording
};
inline constexpr std::size_t kColumns = 60;

struct Denial {
  std::int64_t time = 0;
  Kind kind = Kind::kDenied;  ///< or kRefused, by the driver
  Place place;
  std::uint32_t process = 0;
  std::uint32_t site = 0;
  std::uint64_t bytes = 0;
  std::uint32_t detail = 0;  ///< number of the denial, or the driver's error
  std::int64_t held = 0;     ///< by the workload at that moment
};

struct Asking {
  std::uint32_t process = 0;
  Asked function = Asked::kFree;
  std::uint64_t times = 0;
  std::uint64_t least = 0, most = 0;  ///< answers
};

/// Blocks whose size is at most `upto` and more than half of it.
struct SizeClass {
  std::uint64_t upto = 0;
  std::uint64_t count = 0;
  std::uint64_t freed = 0;
  std::uint64_t bytes = 0;           ///< sum of all
  std::int64_t middle_lifetime = 0;  ///< nanoseconds; half of the freed ones lived no longer, within a factor of two
};

struct Inspection {
  std::uint64_t events = 0;
  std::int64_t length = 0;  ///< nanoseconds from the beginning to the last event
  std::vector<Held> held;
  std::vector<Group> never_freed;  ///< until their process ended, the largest groups first
  std::vector<SizeClass> sizes;
  std::vector<Asking> asked;
  std::vector<Denial> denials;  ///< the first kMostDenials
  std::uint64_t denial_count = 0;
  std::vector<std::pair<std::int64_t, std::string>> marks;
};
inline constexpr std::size_t kMostDenials = 1000;

/// Reads the recording twice. With `at`, every place is described at that time rather than at its peak.
[[nodiscard]] Inspection inspect(const Recording& recording, std::optional<std::int64_t> at = {});

}  // namespace ration::trace
