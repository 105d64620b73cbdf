// Remembers the last reading of each run's counters. A book counts denials and keeps its peak for the whole run, and
// every daemon reads it repeatedly, so only the increase since the last reading is counted. Used by History. Promises:
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
  /// Returns the increase of `now` over the last reading of that run on that device: the further denials, and the peak
  /// if it is higher, else 0.
  [[nodiscard]] Reading news(Database& database, const Pending::RunKeyNow& run, const Reading& now);

  /// Forgets the runs that hold nothing any more, since everything about them is stored.
  void note_stored(const Instant& last);

 private:
  std::map<Pending::RunKeyNow, Reading> known_;
};

}  // namespace ration::history
