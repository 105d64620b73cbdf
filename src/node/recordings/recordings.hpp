// The recordings that policies ask for (`[[policy]] record = true`). A run is recorded where its user may write, as any
// other; once it has ended, a child process with that user's rights hands the file over, and the daemon keeps it. Used
// by the paths of workloads and at every tick. Promises: nothing of a user's is read with the daemon's rights; the kept
// files together have no more bytes than are kept, and the oldest goes first.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/child.hpp"
#include "node/tick/moment.hpp"
#include "node/tick/rule.hpp"

namespace ration::node {

class Recordings {
 public:
  /// `folder` is empty where nothing is kept.
  explicit Recordings(std::string folder) : folder_(std::move(folder)) {}

  /// Notes that the run of a workload is recorded to `file`. Returns false if it cannot be handed over: the daemon does
  /// not run as root, and the workload is another user's.
  bool expect(const Workload& workload, const std::string& file);
  /// Learns that a workload has ended.
  void forget(const std::string& path);

  /// Takes the files of ended runs, and those that are made of the parts of killed ones. Then removes the oldest, until
  /// the kept ones have at most `keep` bytes, or that share of the file system.
  void follow(std::uint64_t now_ns, const config::Amount& keep);
  /// Returns true while a file is handed over, or has not been asked for yet.
  [[nodiscard]] bool is_taking() const;

 private:
  struct Run {
    std::string file, name;
    uid_t user = 0;
    gid_t group = 0;
    bool has_ended = false;
    std::unique_ptr<Child> child;  ///< hands the file over; null while none runs
    int tries = 0;
    std::uint64_t next_ns = 0;
  };

  /// Returns false once nothing more is to be done for the run.
  bool follow_run(Run& run, std::uint64_t now_ns, Bytes most);
  void remove_oldest(Bytes most) const;

  const std::string folder_;
  std::multimap<std::string, Run> runs_;  ///< by the path of the book
};

/// Follows the recordings that policies asked for.
std::unique_ptr<Rule> recordings_rule(Recordings& recordings);

}  // namespace ration::node
