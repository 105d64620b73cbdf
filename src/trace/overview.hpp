// Sums up a recording in one pass: peaks, sizes of blocks, blocks that were never freed, how often programs queried the
// size of memory, and denials. The packed file keeps the overview, so that a reader need not read a hundred million
// events. Used by `ration inspect` and the packed file.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/event.hpp"
#include "trace/live.hpp"

namespace ration::trace {

/// The blocks of one process, size and call site.
struct Group {
  std::uint32_t process = 0;
  std::uint32_t site = 0;
  std::uint64_t bytes = 0;  ///< size of one block
  std::uint64_t count = 0;
  std::int64_t first = 0, last = 0;  ///< times at which the first and the last block were taken
  std::uint64_t marks = 0;           ///< number of spans, each from a mark to the next, that took blocks of the group
  [[nodiscard]] std::uint64_t total() const { return bytes * count; }
};

/// A count of blocks by group.
class Groups {
 public:
  void add(std::uint32_t process, const Block& block);
  /// Returns the `most` largest groups, the largest first.
  [[nodiscard]] std::vector<Group> largest(std::size_t most = kMostGroups) const;
  static constexpr std::size_t kMostGroups = 20;

 private:
  struct Key {
    std::uint32_t process, site;
    std::uint64_t bytes;
    [[nodiscard]] auto operator<=>(const Key&) const = default;
  };
  struct Counted {
    Group group;
    std::vector<std::uint32_t> spans;
  };
  std::map<Key, Counted> groups_;
};

/// The most bytes that a place held in each span of a recording. All spans have the same length.
struct Timeline {
  std::int64_t span = 1024;  ///< length in nanoseconds, a power of two; doubles once kMostSpans are full
  std::vector<std::int64_t> most;

  static constexpr std::size_t kMostSpans = 2048;
  /// Notes that a place held `before` up to `time`, and `after` from then on.
  void add(std::int64_t time, std::int64_t before, std::int64_t after);
  /// Returns the most bytes held in each of `count` columns.
  [[nodiscard]] std::vector<std::int64_t> columns(std::size_t count) const;
};

/// The totals of one place.
struct Total {
  Place place;
  std::int64_t peak = 0, peak_time = 0;
  std::int64_t at_end = 0;  ///< bytes held before the last process ended
  Timeline timeline;
};

struct Denial {
  std::int64_t time = 0;
  Kind kind = Kind::kDenied;  ///< kRefused if the request failed in the driver
  Place place;
  std::uint32_t process = 0;
  std::uint32_t site = 0;
  std::uint64_t bytes = 0;
  std::uint32_t detail = 0;  ///< number of the denial, or the driver's error
  std::int64_t held = 0;     ///< bytes that the workload held at that moment
};

struct Asking {
  std::uint32_t process = 0;
  Asked function = Asked::kFree;
  std::uint64_t times = 0;
  std::uint64_t least = 0, most = 0;  ///< smallest and largest answer
};

/// Blocks whose size is at most `upto` and more than half of it.
struct SizeClass {
  std::uint64_t upto = 0;
  std::uint64_t count = 0;
  std::uint64_t freed = 0;
  std::uint64_t bytes = 0;           ///< sum of all blocks
  std::int64_t middle_lifetime = 0;  ///< median in nanoseconds, to a factor of two; of freed blocks only
};

struct Mark {
  std::int64_t time = 0;
  std::uint32_t site = 0;  ///< its text, in Header::sites
};

struct Overview {
  std::uint64_t events = 0;
  std::int64_t length = 0;  ///< nanoseconds from the beginning to the last event
  std::vector<Total> totals;
  std::vector<Group> never_freed;  ///< blocks not freed before their process ended, the largest groups first
  std::vector<SizeClass> sizes;
  std::vector<Asking> asked;
  std::vector<Denial> denials;  ///< the first kMostDenials
  std::uint64_t denial_count = 0;
  std::vector<Mark> marks;
};
inline constexpr std::size_t kMostDenials = 1000;

/// A builder of an overview from events in order of time.
class OverviewBuilder {
 public:
  explicit OverviewBuilder(const Header& header);
  ~OverviewBuilder();
  void add(const Event& event);
  [[nodiscard]] const Live& live() const;
  /// Returns the overview. Call it once, after the last event.
  [[nodiscard]] Overview finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the overview as the packed file keeps it (JSON; docs/recording.md).
[[nodiscard]] std::string text_of(const Overview& overview);
/// Reads what text_of() wrote. Returns nothing if the text is of another version, or has a number that the header does
/// not resolve.
[[nodiscard]] std::optional<Overview> parse_overview(std::string_view text, const Header& header);

}  // namespace ration::trace
