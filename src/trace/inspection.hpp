// What a recording tells about a program's memory: its overview, and what its places consisted of at their peaks or at
// a time. Used by `ration inspect`; exports have the same numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trace/overview.hpp"

namespace ration::trace {

/// The bytes of one use and process at a moment.
struct Share {
  Use use = Use::kBlocks;
  std::uint32_t process = 0;
  std::int64_t charged = 0;
};

/// The ranges of a thread that are open at a moment, the outermost first.
struct Inside {
  std::uint32_t process = 0, thread = 0;
  std::vector<std::uint32_t> sites;  ///< their names, in Header::sites
};

/// What one place held at its peak, or at the time that was asked for.
struct Held {
  Place place;
  std::int64_t time = 0;
  std::int64_t charged = 0;
  std::int64_t at_end = 0;             ///< before the last process ended
  std::uint64_t requested = 0;         ///< live bytes of blocks, as the program asked for them
  std::vector<Share> parts;            ///< the largest first
  std::vector<Group> largest;          ///< live blocks, the largest groups first
  std::string mark;                    ///< the newest mark before it
  std::vector<Inside> inside;          ///< open ranges; at a peak those of the thread that led to it first
  std::vector<std::int64_t> timeline;  ///< the most that was held in each of kColumns spans of the recording
};
inline constexpr std::size_t kColumns = 60;

struct Inspection {
  Overview overview;
  std::vector<Held> held;
};

/// Takes a place as it is described, and what the workload has at that moment.
using Described = std::function<void(const Held&, const Live&)>;

/// Reads a recording with an overview where these moments are, any other twice. With `at`, every place is described at
/// that time rather than at its peak.
[[nodiscard]] Inspection inspect(const Recording& recording, std::optional<std::int64_t> at = {},
                                 const Described& described = {});

/// Calls `visit(number, live)` for each of the times, which are in order, with what the workload has after all events
/// up to that time. Reads a recording with an overview only where the times are.
void at_times(const Recording& recording, const std::vector<std::int64_t>& times,
              const std::function<void(std::size_t, const Live&)>& visit);

}  // namespace ration::trace
