// Gives numbers to the runs, the devices and the lines of charts, for the tables. Used by History. Promises: a number
// is given once; names that are not stored yet stay known until note_stored() confirms them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "history/database.hpp"
#include "history/integrator.hpp"
#include "history/sample.hpp"

namespace ration::history {

class Names {
 public:
  struct Run {
    std::int64_t id = 0;
    WorkloadSample facts;
    bool stored = false;
  };

  /// Loads the names of the last commit.
  void load(Database& database);

  [[nodiscard]] std::int64_t device(const DeviceSample& device);
  /// Returns the run with its facts as they were first recorded, perhaps by an earlier daemon in the same database.
  [[nodiscard]] const Run& run(Database& database, const WorkloadSample& workload);
  [[nodiscard]] std::int64_t line(int kind, const std::string& name, std::int64_t device);
  /// Records the end of a run. Ignores a run of which no sample is known.
  void run_ended(const RunKey& run, TimeMs ended, int exit_code) { ended_.push_back({run, ended, exit_code}); }

  /// Stores the new names. Requires that the caller has begun a transaction.
  void store(Database& database) const;
  /// Notes that the transaction of store() was committed, and forgets the runs that hold nothing any more.
  void note_stored(const Instant& last);
  /// Notes that the file is new, so that every name must be stored again.
  void note_nothing_stored();

 private:
  struct Ended {
    RunKey run;
    TimeMs time = 0;
    int exit_code = 0;
  };
  struct LineName {
    int kind = 0;
    std::string name;
    std::int64_t device = 0;
    auto operator<=>(const LineName&) const = default;
  };
  struct Numbered {
    std::int64_t id = 0;
    bool stored = false;
  };
  struct Device {
    std::int64_t id = 0, capacity = 0;
    std::string name;
    bool stored = false;
  };

  std::map<RunKey, Run> runs_;
  std::map<std::string, Device> devices_;
  std::map<LineName, Numbered> lines_;
  std::vector<Ended> ended_;
  std::int64_t last_run_ = 0, last_device_ = 0, last_line_ = 0;
};

}  // namespace ration::history
