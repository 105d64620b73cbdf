// Which of the limits that rebalancing moves are worth an event: of a limit that goes up and down with every tick, one
// event for each burst, and none where it reads the same as before. Used by the engine; time is an argument.
//
// Promises (tests/unit/decisions/limit_moves_test.cpp):
// 1. What is taken reads differently before and after, and begins where the last one that was taken ended.
// 2. A burst is taken once: kQuiet after its last move, kMaxDelay after its first, or when somebody asks for it because
//    something came of it.
// 3. `count` is how often the limit moved within the burst, also by amounts too small to read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"

namespace ration::node {

class LimitMoves {
 public:
  static constexpr std::uint64_t kQuiet = 5'000'000'000, kMaxDelay = 60'000'000'000;  // nanoseconds

  /// An account of a book, by the book's path.
  using Place = std::pair<std::string, std::uint32_t>;

  struct Burst {
    Place place;
    Bytes from, to;
    std::string because;  ///< of the last move
    std::uint64_t count = 0, first_ns = 0, last_ns = 0;
  };

  void note(const Place& place, Bytes from, Bytes to, std::string because, std::uint64_t now_ns);

  /// Those that are over by now.
  [[nodiscard]] std::vector<Burst> take_over(std::uint64_t now_ns);
  /// What there is of one workload so far.
  [[nodiscard]] std::vector<Burst> take_of(const std::string& path);
  /// Somebody else set its limits, and has told so: the next move begins there.
  void forget(const std::string& path);

 private:
  struct Moves {
    Bytes told, now;
    std::string because;
    std::uint64_t count = 0, first_ns = 0, last_ns = 0;
  };
  [[nodiscard]] static std::optional<Burst> take(const Place& place, Moves& moves);

  std::map<Place, Moves> moves_;
};

}  // namespace ration::node
