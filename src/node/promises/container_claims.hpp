// Claims that cluster engines hold on this node. In Kubernetes, a claim is a ResourceClaim: memory is kept for its
// containers from the time when the claim is prepared until it is released.
// Promises: a claim is on disk before the engine learns that it exists, and survives a restart; a damaged file is
// reported, and kept beside the new file.
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
  Bytes limit, guarantee;  ///< sums over all containers of the claim

  bool operator==(const ClaimedDevice&) const = default;
};

struct ContainerClaim {
  std::string id;      ///< id that the engine gave; in Kubernetes the claim's UID
  std::string name;    ///< name for people: NAMESPACE/NAME
  std::string tenant;  ///< the tenant to charge
  std::string on_deny;
  std::vector<ClaimedDevice> devices;  ///< each device once

  bool operator==(const ContainerClaim&) const = default;

  /// Returns the claim's part of that device; null if it has none.
  [[nodiscard]] const ClaimedDevice* share_of(const std::string& uuid) const;
};

class ContainerClaims {
 public:
  static constexpr std::size_t kMaxClaims = 1024, kMaxId = 63;
  /// The name of the label with the ids of a workload's claims, joined by kSeparator.
  static constexpr const char* kLabel = "claims";
  static constexpr char kSeparator = '+';

  /// Reads the claims from `file`; an empty path keeps nothing.
  explicit ContainerClaims(std::string file = "");

  /// Returns true for an id that container engines accept as a device name: letters, digits and `_-.`, beginning and
  /// ending with a letter or digit, at most kMaxId characters.
  [[nodiscard]] static bool is_id(const std::string& id);

  /// Adds a claim; an identical one changes nothing. Fails with E1713 if a claim of that id has other content, with
  /// E1529 if there are too many claims, or with E1531 if the file cannot be written.
  [[nodiscard]] Result<void> put(ContainerClaim claim);
  /// Removes a claim; also succeeds if there is none. Fails with E1531.
  [[nodiscard]] Result<void> remove(const std::string& id);

  /// Returns the claim; null for an unknown id.
  [[nodiscard]] const ContainerClaim* find(const std::string& id) const;
  [[nodiscard]] const std::map<std::string, ContainerClaim>& all() const { return claims_; }
  /// Returns the claims that a workload with this owner and these labels has joined and that have a part of the device.
  /// Returns none unless the owner is the daemon's own user, since only hooks of that user put workloads into claims.
  [[nodiscard]] std::vector<const ContainerClaim*> of_workload(std::uint32_t owner, const std::string& labels,
                                                               const std::string& uuid) const;

  /// Returns a report of a damaged file; empty if it was sound.
  [[nodiscard]] const Message& damage() const { return file_.damage(); }

 private:
  [[nodiscard]] Result<void> save(std::map<std::string, ContainerClaim> fresh);

  StateFile file_;
  std::map<std::string, ContainerClaim> claims_;
};

/// Returns the claim ids in a workload's labels.
[[nodiscard]] std::vector<std::string> claim_ids(const std::string& labels);

}  // namespace ration::node
