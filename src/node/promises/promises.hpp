// Adds up guarantees and slices on the devices of a running node, with the class Promises of admission/promises.hpp.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "admission/promises.hpp"
#include "node/promises/container_claims.hpp"
#include "node/tenants/tenants.hpp"
#include "node/tick/moment.hpp"

namespace ration::node {

/// A tenant's limit and guarantee on a device.
struct TenantShare {
  Bytes limit = kUnlimited, guarantee{};
};
/// The memory of a device that a new workload of a tenant can take.
struct TenantRoom {
  Bytes available;                   ///< free, and not kept for others
  Bytes limit = kUnlimited;          ///< the tenant's limit
  Bytes left_of_limit = kUnlimited;  ///< the limit without what the tenant's workloads hold or are guaranteed
};
using TenantShares = std::map<std::pair<std::string, int>, TenantShare>;

/// The promises to tenants, workloads, slices and claims. Each function computes them from the subjects and from the
/// moment that it gets; nothing is kept.
class DevicePromises {
 public:
  DevicePromises(const Tenants& tenants, const ContainerClaims& claims) : tenants_(tenants), claims_(claims) {}

  /// Returns the limits and guarantees that tenants have now, by tenant and device.
  [[nodiscard]] TenantShares shares(const Moment& moment) const;
  /// Returns the bytes that the configuration keeps free on the device, plus the bytes of slices without a workload.
  [[nodiscard]] static Bytes reserved_on(const Moment& moment, const machine::Device& device);
  /// Returns the guarantees of claims without a running container.
  [[nodiscard]] Bytes kept_for_claims(const Moment& moment, const machine::Device& device) const;
  /// Returns the guarantees of the tenant's claims.
  [[nodiscard]] Bytes guaranteed_to_claims_of(const machine::Device& device, const std::string& tenant) const;
  /// Returns the memory of the device that a new workload of the tenant can take now.
  [[nodiscard]] TenantRoom room_for(const Moment& moment, const DeviceView& device, const std::string& tenant) const;
  /// Fills in `promised`, `available` and `kept_for` of a device in the snapshot.
  void note(const Moment& moment, DeviceView& device) const;
  /// Checks that every promise on the device can still be kept if `more` bytes are promised to a workload of the
  /// tenant. Each tenant counts with its own guarantee or with the sum of its workloads' guarantees, whichever is
  /// larger. `except` is the path of a workload to leave out, `slice` the slice that the bytes come from. Fails with
  /// E1304.
  [[nodiscard]] Result<void> can_promise(const Moment& moment, const DeviceView& device, const std::string& tenant,
                                         Bytes more, const std::string& except = "",
                                         const std::string& slice = "") const;
  /// Checks that the tenant's own guarantee can become `guarantee`. Fails with E1304.
  [[nodiscard]] Result<void> can_guarantee(const Moment& moment, const DeviceView& device, const std::string& tenant,
                                           Bytes guarantee) const;
  /// Checks that a user who is no operator may reserve `more` bytes: they must be within the tenant's guarantee, or in
  /// `slice`. Fails with E1502.
  [[nodiscard]] Result<void> may_promise(const Moment& moment, const DeviceView& device, const std::string& tenant,
                                         Bytes more, const std::string& slice) const;

 private:
  [[nodiscard]] std::map<std::string, Bytes> guarantees_on(const Moment& moment, const machine::Device& device) const;
  [[nodiscard]] bool has_containers(const Moment& moment, const ContainerClaim& claim) const;
  /// Adds up all promises on the device, without those to workload `except` and without `own_slice` bytes of the
  /// slices.
  [[nodiscard]] admission::Promises promises_on(const Moment& moment, const DeviceView& device,
                                                const std::string& except = "", Bytes own_slice = Bytes{0}) const;
  /// Adds up the guarantees of the claims for which `counts` returns true.
  [[nodiscard]] admission::Promises promises_to_claims(const std::string& uuid,
                                                       const std::function<bool(const ContainerClaim&)>& counts) const;

  const Tenants& tenants_;
  const ContainerClaims& claims_;
};

}  // namespace ration::node
