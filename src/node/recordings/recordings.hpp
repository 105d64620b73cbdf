// The recordings that policies ask for (`[[policy]] record = true`). A run is recorded where its user may write, as any
// other; once it has ended, a child process with that user's rights hands the file over, and the daemon keeps it. Used
// by the paths of workloads and at every tick. Promises: nothing of a user's is read with the daemon's rights; a user's
// kept files together have no more bytes than are kept of each user, and the oldest goes first; no file is replaced,
// and none is removed that the daemon did not take.
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
  /// `folder` is empty where nothing is kept.
  explicit Recordings(std::string folder);

  /// Notes that the run of a workload is recorded to `file`. Returns false if it cannot be handed over: the daemon does
  /// not run as root and the workload is another user's, or this user has too many such runs already.
  bool expect(const Workload& workload, const EventSubject& subject, const std::string& file);
  /// Learns that a workload has ended.
  void forget(const std::string& path);

  /// Takes the files of ended runs, and those that are made of the parts of killed ones, one of a user at a time. Then
  /// removes that user's oldest ones, until they have at most `keep` bytes, or that share of the file system. Adds an
  /// event for a file that is not taken.
  void follow(std::uint64_t now_ns, const config::Amount& keep, Events& events);
  /// Returns true while a file is handed over, or has not been asked for yet.
  [[nodiscard]] bool is_taking() const;

 private:
  struct Run {
    std::string file, name;
    EventSubject subject;
    uid_t user = 0;
    gid_t group = 0;
    bool has_ended = false;
    bool is_kept = false;          ///< what is left to do is to remove the user's file
    std::unique_ptr<Child> child;  ///< hands the file over, or removes it; null while none runs
    int tries = 0, empty_tries = 0;
    std::uint64_t next_ns = 0;
  };

  /// Returns false once nothing more is to be done for the run.
  bool follow_run(Run& run, std::uint64_t now_ns, Bytes most, Events& events);
  /// Looks at what the child handed over. Returns false if nothing more is to be done.
  bool look_at_copy(Run& run, const Child::Ended& copied, Bytes most, Events& events);
  /// Starts a child that reads or removes the user's file, with the user's rights.
  void start_child(Run& run, Bytes most);
  /// Gives the copy a name that no file has, and its user. Returns false if it cannot be kept.
  [[nodiscard]] bool keep(const Run& run) const;
  [[nodiscard]] std::string unfinished(const Run& run) const;
  void remove_oldest(uid_t user, Bytes most) const;

  const std::string folder_;
  std::multimap<std::string, Run> runs_;  ///< by the path of the book
};

/// Follows the recordings that policies asked for.
std::unique_ptr<Rule> recordings_rule(Recordings& recordings);

}  // namespace ration::node
