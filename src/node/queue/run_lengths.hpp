// Learns how long programs run, for the queue's backfilling. The caller reads the history and reports ended runs.
//
// The estimate is a range, because the queue asks two questions, and a wrong answer to either delays a waiting request:
//  - When will a run have ended at the latest? After the length of the longest of the latest kRunsRemembered runs, plus
//    a tenth. If the lengths come from one distribution, the next run exceeds the longest of 20 once in 21 times; it
//    would exceed an average every second time.
//  - When may a run end at the earliest? After the length of the shortest of these runs that is longer than the run so
//    far; if there is none, at any moment.
// An outlier prevents some backfilling until it is forgotten, but takes no request's place away.
// Fewer than kMinRuns runs give no estimate. Failed runs do not count: most of them end early.
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
  std::vector<std::uint64_t> lengths_ns;  ///< lengths of the latest runs, in ascending order
  std::uint64_t at_most_ns = 0;           ///< upper bound, unless this run is the longest ever

  [[nodiscard]] std::optional<std::uint64_t> shortest_above(std::uint64_t ns) const;
};

/// A recurring program: same user, tenant, name and command line.
struct Program {
  std::string user, tenant, name;
  std::uint64_t command = 0;  ///< command_hash()
  auto operator<=>(const Program&) const = default;
};

/// The number of bytes of a command line that are compared; books and the daemon keep no more of it.
inline constexpr std::size_t kCommandCompared = 200;
[[nodiscard]] std::uint64_t command_hash(std::string_view command);

/// Removes the run's number from the end of an unnamed workload's name (`python-17`), so that all runs of a program
/// have one name.
[[nodiscard]] std::string name_without_number(const std::string& workload, std::uint64_t run_number);

/// The run lengths of all programs. Not thread-safe: the daemon's loop owns it.
class RunLengthTable {
 public:
  static constexpr std::size_t kRunsRemembered = 20, kMinRuns = 5;
  static constexpr std::size_t kMaxPrograms = 10'000;  ///< the most programs kept: those that ran most recently

  /// Adds a successful run. The caller adds runs in the order in which they end.
  void add(const Program& program, std::uint64_t length_ns);
  [[nodiscard]] std::optional<RunLengths> expected(const Program& program) const;
  [[nodiscard]] std::size_t size() const { return programs_.size(); }

 private:
  struct Past {
    std::deque<std::uint64_t> lengths_ns;  ///< oldest first
    std::uint64_t last = 0;                ///< number of its latest run in this table
  };
  std::map<Program, Past> programs_;
  std::map<std::uint64_t, const Program*> by_age_;  ///< programs by the number of their latest run
  std::uint64_t runs_ = 0;
};

}  // namespace ration::node
