// The outcome of a tick outside of the books: events, ended workloads, and changes for the queue. Rules add to the
// outcome, and the daemon passes it to the recorder, the queue and the announcer.
#pragma once

#include <string>
#include <vector>

#include "base/message.hpp"
#include "history/sample.hpp"
#include "node/books/registry.hpp"
#include "node/events/event.hpp"

namespace ration::node {

/// A run that ended.
struct EndedRun {
  history::RunKey run;
  history::TimeMs ended = 0;
  int exit_code = 0;
};

/// Suspensions and resume requests, for the queue.
struct ResidencyChanges {
  std::vector<std::string> suspended;  ///< paths of workloads that were suspended
  struct ResumeRequest {
    std::string path;
    Message reason;
    bool confirmed = true;
  };
  std::vector<ResumeRequest> resume_requests;
};

struct Effects {
  Events events;  ///< oldest first
  std::vector<Workload> ended_workloads;
  std::vector<EndedRun> ended_runs;
  ResidencyChanges residency_changes;
  /// The paths of workloads that ended or are governed by another daemon now. The engine makes every subject and rule
  /// forget them as soon as the rule that added them has run.
  std::vector<std::string> forgotten;
};

}  // namespace ration::node
