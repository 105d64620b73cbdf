// Claims that cluster engines hold on this node: a Kubernetes ResourceClaim, for whose containers memory is kept from
// preparation to release.
// Promises: a claim is on disk before the engine learns that it exists, and survives a restart; a damaged file is kept
// beside the new one and reported.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "node/state/state_file.hpp"

namespace ration::node {

struct ClaimedDevice {
  std::string uuid;
  Bytes limit, guarantee;  ///< of all the claim's containers together

  bool operator==(const ClaimedDevice&) const = default;
};

struct ContainerClaim {
  std::string id;      ///< the engine's own; in Kubernetes the claim's UID
  std::string name;    ///< for people: NAMESPACE/NAME
  std::string tenant;  ///< the tenant to charge
  std::string on_deny;
  std::vector<ClaimedDevice> devices;  ///< each device once

  bool operator==(const ContainerClaim&) const = default;

  /// Returns null if the claim has no part of that device.
  [[nodiscard]] const ClaimedDevice* share_of(const std::string& uuid) const;
};

class ContainerClaims {
 public:
  static constexpr std::size_t kMaxClaims = 1024, kMaxId = 63;
  /// Label of a workload: the ids of its claims, joined by kSeparator.
  static constexpr const char* kLabel = "claims";
  static constexpr char kSeparator = '+';

  /// An empty path keeps nothing.
  explicit ContainerClaims(std::string file = "");

  /// Returns true for letters, digits and `_-.`, beginning and ending with a letter or digit, which container engines
  /// accept as a device name.
  [[nodiscard]] static bool is_id(const std::string& id);

  /// Adds a claim; an identical one changes nothing. E1713: the id has other content. E1529: too many. E1531.
  [[nodiscard]] Result<void> put(ContainerClaim claim);
  /// Removes a claim; succeeds also if there is none. E1531.
  [[nodiscard]] Result<void> remove(const std::string& id);

  /// Returns null for an unknown id.
  [[nodiscard]] const ContainerClaim* find(const std::string& id) const;
  [[nodiscard]] const std::map<std::string, ContainerClaim>& all() const { return claims_; }
  /// Returns the claims with a part of the device that the owner's workload with these labels has joined; empty: none.
  /// Only the hooks of the daemon's own user put workloads into claims.
  [[nodiscard]] std::vector<const ContainerClaim*> of_workload(std::uint32_t owner, const std::string& labels,
                                                               const std::string& uuid) const;

  /// Returns a report of a damaged file; empty: it was sound.
  [[nodiscard]] const Message& damage() const { return file_.damage(); }

 private:
  [[nodiscard]] Result<void> save(std::map<std::string, ContainerClaim> fresh);

  StateFile file_;
  std::map<std::string, ContainerClaim> claims_;
};

/// Returns the claim ids in a workload's labels; empty: none.
[[nodiscard]] std::vector<std::string> claim_ids(const std::string& labels);

}  // namespace ration::node
