// The recordings that policies ask for (`[[policy]] record = true`). Like any other recording, such a recording is a
// file that the run's user may write. Once the run has ended, a child process with that user's rights hands the file
// over, and the daemon keeps a copy. Used by the paths of workloads and at every tick.
// Promises: no file of a user is read with the daemon's rights; the kept files of one user together have at most the
// configured number of bytes, and the oldest are removed first; no file is replaced, and the daemon removes only files
// that it took.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/child.hpp"
#include "node/events/event_text.hpp"
#include "node/tick/moment.hpp"
#include "node/tick/rule.hpp"

namespace ration::node {

class Recordings {
 public:
  /// Keeps recordings in `folder`; keeps none if `folder` is empty.
  explicit Recordings(std::string folder);

  /// Notes that the run of a workload is recorded to `file`. Returns false if the file cannot be handed over: because
  /// the daemon does not run as root and the workload belongs to another user, or because this user has too many such
  /// runs already.
  bool expect(const Workload& workload, const EventSubject& subject, const std::string& file);
  /// Notes that a workload has ended.
  void forget(const std::string& path);

  /// Takes the files of ended runs, one file of each user at a time; for a killed run, first makes the file from its
  /// parts. Then removes the oldest kept files of the user until the rest is within `keep`, a number of bytes or a
  /// share of the file system. Adds an event for a file that is not taken.
  void follow(std::uint64_t now_ns, const config::Amount& keep, Events& events);
  /// Returns true while a file is being handed over, or while an ended run's file has not been requested yet.
  [[nodiscard]] bool is_taking() const;

 private:
  struct Run {
    std::string file, name;
    EventSubject subject;
    uid_t user = 0;
    gid_t group = 0;
    bool has_ended = false;
    bool is_kept = false;          ///< true if only the removal of the user's file is left to do
    std::unique_ptr<Child> child;  ///< hands the file over, or removes it; null while none runs
    int tries = 0, empty_tries = 0;
    std::uint64_t next_ns = 0;
  };

  /// Continues with an ended run. Returns false once nothing is left to do for the run.
  bool follow_run(Run& run, std::uint64_t now_ns, Bytes most, Events& events);
  /// Examines the file that the child handed over. Returns false if nothing is left to do for the run.
  bool look_at_copy(Run& run, const Child::Ended& copied, Bytes most, Events& events);
  /// Starts a child that reads or removes the user's file, with the user's rights.
  void start_child(Run& run, Bytes most);
  /// Gives the copy to the run's user, under a name that no other file has. Returns false if the copy cannot be kept.
  [[nodiscard]] bool keep(const Run& run) const;
  [[nodiscard]] std::string unfinished(const Run& run) const;
  void remove_oldest(uid_t user, Bytes most) const;

  const std::string folder_;
  std::multimap<std::string, Run> runs_;  ///< by the path of the book
};

/// Follows the recordings that policies asked for.
std::unique_ptr<Rule> recordings_rule(Recordings& recordings);

}  // namespace ration::node
