// Tracks up to which reading the runs are counted. A book counts denials and keeps its peak for the whole run, and is
// read repeatedly, also by the next daemon: only the increase since the previous reading is entered. Used by History.
// Promises: the last reading is stored in the same transaction as the sums, so both survive a kill or both are lost; a
// lower reading counts as nothing new.
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
  /// Returns the increase of `now` over the last reading of that run on that device: the denials since then, and the
  /// peak if it is higher, else 0.
  [[nodiscard]] Reading news(Database& database, const Pending::RunKeyNow& run, const Reading& now);

  /// Forgets runs that hold nothing any more: everything about them is stored.
  void note_stored(const Instant& last);

 private:
  std::map<Pending::RunKeyNow, Reading> known_;
};

}  // namespace ration::history
