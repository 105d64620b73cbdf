// Remembers the last reading of each run's counters. A book counts the denials of the whole run, and keeps its peak.
// Daemons read the book repeatedly, so only the increase since the last reading is counted. Used by History. Promises:
// the last reading is stored in the same transaction as the sums, so a kill loses both or neither; a lower reading
// counts as no increase.
#pragma once

#include <cstdint>
#include <map>

#include "history/database.hpp"
#include "history/integrator.hpp"

namespace ration::history {

class Readings {
 public:
  struct Reading {
    std::int64_t peak = 0, denials = 0;
  };
  /// Compares `now` with the last reading of that run on that device. Returns the number of denials since then, and the
  /// peak if it is a new one; otherwise 0 as the peak.
  [[nodiscard]] Reading news(Database& database, const Pending::RunKeyNow& run, const Reading& now);

  /// Forgets the runs that hold nothing any more, since everything about them is stored.
  void note_stored(const Instant& last);

 private:
  std::map<Pending::RunKeyNow, Reading> known_;
};

}  // namespace ration::history
