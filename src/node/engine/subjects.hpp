// Everything that a node remembers between two ticks, apart from its moment. Each member is one subject. Engine and
// LocalNode each own a Subjects; rules and requests get only the subjects that they use.
#pragma once

#include <string>
#include <vector>

#include "node/engine/node_options.hpp"
#include "node/limits/limit_records.hpp"
#include "node/limits/limits_requests.hpp"
#include "node/promises/claims_requests.hpp"
#include "node/promises/promises.hpp"
#include "node/recordings/recordings.hpp"
#include "node/residency/residency.hpp"
#include "node/tenants/allowed_tenants.hpp"
#include "node/tenants/tenants.hpp"

namespace ration::node {

struct Subjects {
  /// Takes the checkpoint jobs out of `options`.
  explicit Subjects(NodeOptions& options);
  Subjects(const Subjects&) = delete;
  Subjects& operator=(const Subjects&) = delete;

  Tenants tenants;
  Schedules schedules;
  AllowedTenants allowed;
  ContainerClaims claims;
  DevicePromises promises;
  LimitRecords limits;
  Residency residency;
  Recordings recordings;

  /// Returns reports of damaged files.
  [[nodiscard]] std::vector<Message> damages() const;
  /// Drops all that is remembered of one workload.
  void forget(const std::string& path);
  /// Returns the subjects that requests for limits read and change.
  [[nodiscard]] LimitSubjects limit_subjects(const Moment& moment) {
    return {moment, limits.limits, limits.moves, promises};
  }
};

}  // namespace ration::node
