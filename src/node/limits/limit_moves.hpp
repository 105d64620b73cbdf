// Combines the many small moves of limits that rebalancing causes into few events: one for each burst of moves, and
// none if the limit is written with the same text before and after the burst. The caller passes in the time.
//
// Promises (tests/unit/decisions/limit_moves_test.cpp):
// 1. The limits before and after a burst are written with different texts. A burst begins at the limit at which the
//    last reported burst ended.
// 2. A burst is returned once: kQuiet after its last move, kMaxDelay after its first, or on request, so that its event
//    precedes the event that it caused.
// 3. `count` counts every move in the burst, even a move that does not change the written text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/message.hpp"

namespace ration::node {

class LimitMoves {
 public:
  static constexpr std::uint64_t kQuiet = 5'000'000'000, kMaxDelay = 60'000'000'000;  // nanoseconds

  /// Path of the book, and index of the account in it.
  using AccountKey = std::pair<std::string, std::uint32_t>;

  struct Burst {
    AccountKey account;
    Bytes from, to;
    Message reason;  ///< reason of the last move
    std::uint64_t count = 0, first_ns = 0, last_ns = 0;
  };

  void note(const AccountKey& account, Bytes from, Bytes to, Message reason, std::uint64_t now_ns);

  /// Returns the bursts that have ended.
  [[nodiscard]] std::vector<Burst> take_ended(std::uint64_t now_ns);
  /// Returns the workload's bursts so far.
  [[nodiscard]] std::vector<Burst> take_for(const std::string& path);
  /// Forgets the workload after its limits were set and reported in another way. Its next burst begins at the new
  /// limits.
  void forget(const std::string& path);

 private:
  struct Moves {
    Bytes reported, latest;
    Message reason;
    std::uint64_t count = 0, first_ns = 0, last_ns = 0;
  };
  [[nodiscard]] static std::optional<Burst> take(const AccountKey& account, Moves& moves);

  std::map<AccountKey, Moves> moves_;
};

}  // namespace ration::node
