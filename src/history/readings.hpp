// How far the readings of runs are counted. A book counts denials and keeps its peak for the whole run, and is read
// again and again, also by the next daemon: only what a reading has beyond the one before is entered. Used by History.
// Promises: the last reading is what the database has of the run, so it survives a kill with the sums or is lost with
// them; a reading that is lower than one before counts as nothing new.
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
  /// Returns what `now` has beyond the last reading of that run on that device: the denials since then, and the peak if
  /// it is higher, else 0.
  [[nodiscard]] Reading news(Database& database, const Pending::RunKeyNow& run, const Reading& now);

  /// Forgets runs that hold nothing any more: everything of them is stored.
  void note_stored(const Instant& last);

 private:
  std::map<Pending::RunKeyNow, Reading> known_;
};

}  // namespace ration::history
