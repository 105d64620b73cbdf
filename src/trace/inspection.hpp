// Describes a program's memory from its recording: the overview, and what each place held at its peak or at a given
// time. Used by `ration inspect`; exports have the same numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trace/overview.hpp"

namespace ration::trace {

/// The bytes that one process holds for one use at a moment.
struct Share {
  Use use = Use::kBlocks;
  std::uint32_t process = 0;
  std::int64_t charged = 0;
};

/// The ranges of a thread that are open at a moment, the outermost first.
struct Inside {
  std::uint32_t process = 0, thread = 0;
  std::vector<std::uint32_t> sites;  ///< names of the ranges, in Header::sites
};

/// The content of one place at its peak, or at the requested time.
struct Held {
  Place place;
  std::int64_t time = 0;
  std::int64_t charged = 0;
  std::int64_t at_end = 0;             ///< bytes held before the last process ended
  std::uint64_t requested = 0;         ///< bytes of the live blocks, as the program requested them
  std::vector<Share> parts;            ///< the largest first
  std::vector<Group> largest;          ///< live blocks, the largest groups first
  std::string mark;                    ///< the latest mark before `time`
  std::vector<Inside> inside;          ///< open ranges; at a peak, the thread that led to the peak comes first
  std::vector<std::int64_t> timeline;  ///< the most bytes held in each of kColumns spans of the recording
};
inline constexpr std::size_t kColumns = 60;

struct Inspection {
  Overview overview;
  std::vector<Held> held;
};

/// A function that gets the description of a place, and the state of the workload at that moment.
using Described = std::function<void(const Held&, const Live&)>;

/// Describes every place at its peak or, with `at`, at that time. Reads a recording with an overview only near these
/// moments, and any other recording twice.
[[nodiscard]] Inspection inspect(const Recording& recording, std::optional<std::int64_t> at = {},
                                 const Described& described = {});

/// Calls `visit(number, live)` for each of the times, which must be sorted. `live` is the state of the workload after
/// all events up to that time. Reads a recording with an overview only near the times.
void at_times(const Recording& recording, const std::vector<std::int64_t>& times,
              const std::function<void(std::size_t, const Live&)>& visit);

}  // namespace ration::trace
