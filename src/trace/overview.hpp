// A recording summed up in one pass: peaks, sizes, what was never freed, asked and denied. The packed file keeps it, so
// that a reader of a hundred million events need not read them. Used by `ration inspect` and the packed file.
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

/// Counts alike blocks.
class Groups {
 public:
  void add(std::uint32_t process, const Block& block);
  /// Returns the largest groups, the largest first, at most so many.
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

/// The most that a place held in each of so many spans of a recording.
struct Timeline {
  std::int64_t span = 1024;  ///< nanoseconds, a power of two: short enough for kMostSpans / 2 of them at least
  std::vector<std::int64_t> most;

  static constexpr std::size_t kMostSpans = 2048;
  /// Notes that a place held `before` up to `time`, and `after` from then on.
  void add(std::int64_t time, std::int64_t before, std::int64_t after);
  /// Returns it in `count` columns.
  [[nodiscard]] std::vector<std::int64_t> columns(std::size_t count) const;
};

/// What is known of a place.
struct Total {
  Place place;
  std::int64_t peak = 0, peak_time = 0;
  std::int64_t at_end = 0;  ///< before the last process ended
  Timeline timeline;
};

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

struct Mark {
  std::int64_t time = 0;
  std::uint32_t site = 0;  ///< its text, in Header::sites
};

struct Overview {
  std::uint64_t events = 0;
  std::int64_t length = 0;  ///< nanoseconds from the beginning to the last event
  std::vector<Total> totals;
  std::vector<Group> never_freed;  ///< until their process ended, the largest groups first
  std::vector<SizeClass> sizes;
  std::vector<Asking> asked;
  std::vector<Denial> denials;  ///< the first kMostDenials
  std::uint64_t denial_count = 0;
  std::vector<Mark> marks;
};
inline constexpr std::size_t kMostDenials = 1000;

/// Sums events up, which come in order of time.
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
/// Returns nothing if the text is of another version, or refers to what the header does not have.
[[nodiscard]] std::optional<Overview> parse_overview(std::string_view text, const Header& header);

}  // namespace ration::trace
