// Explains and reports denials. Takes the facts from the book, and adds what only the daemon knows about limits and
// other holders.
#pragma once

#include <string>
#include <vector>

#include "admission/denials.hpp"
#include "node/limits/limit_events.hpp"
#include "node/limits/limit_room.hpp"
#include "node/limits/limits.hpp"
#include "node/tick/earlier_record.hpp"

namespace ration::node {

class Denials {
 public:
  /// Makes the subject; `balances` is null if no daemon runs.
  Denials(const Limits& limits, LimitMoves& moves, const Balances* balances, EarlierRecord earlier)
      : limits_(limits), moves_(moves), balances_(balances), earlier_(std::move(earlier)) {}

  /// Describes a denial. `running` is true while the workload still runs, so that its limit can be raised.
  [[nodiscard]] Event event_of(const Moment& moment, const Workload& workload, const book::Denial& denial,
                               bool running) const;
  /// Reports the denials that are new since the last refresh. Returns those that no earlier daemon recorded.
  std::vector<book::Denial> report(const Moment& moment, const Workload& workload, Events& events);
  /// Returns the command that helps after a denial of `asker`'s running workload; empty if the workload has ended or is
  /// unknown.
  [[nodiscard]] std::string fix_now(const Moment& moment, const std::string& denial, const std::string& asker) const;

 private:
  struct Explained;
  [[nodiscard]] std::optional<Bytes> held_back_from(const Workload& workload, const book::Denial& denial) const;
  void add_largest_holder(const Moment& moment, const Workload& workload, const book::Denial& denial,
                          admission::DenialExplained& explained) const;
  [[nodiscard]] Explained explained(const Moment& moment, const Workload& workload, const book::Denial& denial,
                                    bool running = true) const;

  const Limits& limits_;
  LimitMoves& moves_;
  const Balances* balances_;
  EarlierRecord earlier_;
};

}  // namespace ration::node
