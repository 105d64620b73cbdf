// What engines that place work on several machines were granted here: a Kubernetes resource claim, for whose containers
// the memory is kept from the moment when it is prepared until it is given back. Used by the daemon.
// Promises: a claim is on disk before anybody is told that it is there, and is still there when the daemon starts
// again; what lies in a damaged file is kept beside it, and told.
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
  std::string id;      ///< the engine's own: of Kubernetes the claim's UID
  std::string name;    ///< for people: NAMESPACE/NAME
  std::string tenant;  ///< who is charged
  std::string on_deny;
  std::vector<ClaimedDevice> devices;  ///< each device once

  bool operator==(const ContainerClaim&) const = default;

  /// Null: none of that device.
  [[nodiscard]] const ClaimedDevice* share_of(const std::string& uuid) const;
};

class ContainerClaims {
 public:
  static constexpr std::size_t kMaxClaims = 1024, kMaxId = 63;
  /// Of a workload: the ids of its claims, with a + between them.
  static constexpr const char* kLabel = "claims";
  static constexpr char kSeparator = '+';

  /// `file`: where they are kept; empty: nowhere.
  explicit ContainerClaims(std::string file = "");

  /// Letters, digits and `_-.`, a letter or digit at both ends, so that container engines take it for a device's name.
  [[nodiscard]] static bool is_id(const std::string& id);

  /// The same again changes nothing. E1713: the id has other content. E1529: there are too many. E1531.
  [[nodiscard]] Result<void> put(ContainerClaim claim);
  /// Fine where there is none. E1531.
  [[nodiscard]] Result<void> remove(const std::string& id);

  /// Null: there is none.
  [[nodiscard]] const ContainerClaim* find(const std::string& id) const;
  [[nodiscard]] const std::map<std::string, ContainerClaim>& all() const { return claims_; }

  /// What is to be told of a damaged file; empty: nothing.
  [[nodiscard]] const std::string& lost() const { return file_.damage(); }

 private:
  [[nodiscard]] Result<void> keep(std::map<std::string, ContainerClaim> fresh);

  StateFile file_;
  std::map<std::string, ContainerClaim> claims_;
};

/// The ids in the labels of a workload; none: it is of no claim.
[[nodiscard]] std::vector<std::string> claim_ids(const std::string& labels);

}  // namespace ration::node
