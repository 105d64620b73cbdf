// How long programs run, learned from their own past: for the queue, which lets a smaller one pass a larger one that
// waits only if it is gone in time. Pure: who fills the table reads the history and sees runs end.
//
// The estimate is a range, since two questions are asked and an error of each delays whoever waits:
//  - By when is it gone? The longest of the latest kRunsRemembered runs, and a tenth more: were the lengths of one
//    kind, the next of 20 is above the longest once in 21 times; an average would be wrong every second time.
//  - When may what runs end, at the soonest? The shortest of these runs that was longer than it runs already; longer
//    than all: at any moment.
// One run out of the ordinary costs some passing until it is forgotten, and nobody's place.
// Fewer than kFewestRuns tell nothing. Runs that failed are none: most of them ended early.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ration::node {

struct RunLengths {
  std::vector<std::uint64_t> lengths_ns;  ///< of its latest runs, the shortest first
  std::uint64_t at_most_ns = 0;           ///< it is gone by then, unless it runs longer than ever

  [[nodiscard]] std::optional<std::uint64_t> shortest_above(std::uint64_t ns) const;
};

/// What is run again and again: by the same user for the same tenant, under the same name, with the same command line.
struct Program {
  std::string user, tenant, name;
  std::uint64_t command = 0;  ///< command_hash()
  auto operator<=>(const Program&) const = default;
};

/// Of its first kCommandCompared bytes: the books and the daemon keep no more of it.
inline constexpr std::size_t kCommandCompared = 200;
[[nodiscard]] std::uint64_t command_hash(std::string_view command);

/// The name of a workload as it is next time: one that was given none has the number of its run at its end
/// (`python-17`).
[[nodiscard]] std::string name_without_number(const std::string& workload, std::uint64_t run_number);

/// Not thread-safe: the daemon's one thread owns it.
class RunLengthTable {
 public:
  static constexpr std::size_t kRunsRemembered = 20, kFewestRuns = 5;
  static constexpr std::size_t kMaxPrograms = 10'000;  ///< those that ran last

  /// A run that succeeded; in the order in which they ended.
  void add(const Program& program, std::uint64_t length_ns);
  [[nodiscard]] std::optional<RunLengths> expected(const Program& program) const;
  [[nodiscard]] std::size_t size() const { return programs_.size(); }

 private:
  struct Past {
    std::deque<std::uint64_t> lengths_ns;  ///< the newest last
    std::uint64_t last = 0;                ///< number of its newest run in this table
  };
  std::map<Program, Past> programs_;
  std::map<std::uint64_t, const Program*> by_age_;  ///< the number of the newest run of each
  std::uint64_t runs_ = 0;
};

}  // namespace ration::node
