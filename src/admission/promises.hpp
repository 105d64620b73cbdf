// Adds up the promised memory of one device: guarantees of tenants and workloads, slices, and memory kept free. No
// other code computes promises. Used by the daemon, by commands if no daemon runs, and to check the configuration.
#pragma once

#include <map>
#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "machine/devices.hpp"

namespace ration::admission {

class Promises {
 public:
  /// Begins with `reserved` bytes, which are sliced or kept free and so belong to no guarantee.
  explicit Promises(Bytes reserved = Bytes{0}) : reserved_(reserved) {}

  /// Adds a running workload of the tenant, which holds `used`.
  void add_workload(const std::string& tenant, Bytes guarantee, Bytes used = Bytes{0});
  /// Sets the tenant's own guarantee, which includes the guarantees of its workloads.
  void set_tenant(const std::string& tenant, Bytes guarantee);

  /// Returns the bytes promised to the tenant: its own guarantee, or the sum of its workloads' guarantees if that is
  /// more.
  [[nodiscard]] Bytes to(const std::string& tenant) const;
  /// Returns the sum of the guarantees of the tenant's workloads.
  [[nodiscard]] Bytes to_workloads_of(const std::string& tenant) const;
  /// Returns the bytes promised to all tenants, and the reserved ones.
  [[nodiscard]] Bytes total() const;
  /// Returns the sum, over the tenant's workloads, of the bytes that each holds or is guaranteed, whichever is more.
  [[nodiscard]] Bytes taken_by(const std::string& tenant) const;
  /// Returns the sum of taken_by() over all tenants.
  [[nodiscard]] Bytes taken() const;
  /// Returns the part of the total that its holders do not use yet.
  [[nodiscard]] Bytes unspent() const;
  /// Returns the part of it that is promised to each tenant; tenants without such a part are missing.
  [[nodiscard]] std::map<std::string, Bytes> unspent_by_tenant() const;

  /// Returns the part of the total that a new workload of the tenant cannot use: unspent(), but of the tenant's own
  /// guarantee only the part that is promised to its running workloads.
  [[nodiscard]] Bytes kept_from(const std::string& tenant) const;

  /// Checks that `more` bytes can also be promised to a workload of the tenant. Fails with E1304.
  [[nodiscard]] Result<void> can_add(const machine::Device& device, const std::string& tenant, Bytes more) const;
  /// Checks that the tenant's own guarantee can be set to this size. Fails with E1304.
  [[nodiscard]] Result<void> can_set(const machine::Device& device, const std::string& tenant, Bytes guarantee) const;

 private:
  struct Share {
    Bytes own, of_workloads, used, unspent_of_workloads;
  };
  /// Checks that all promises can be kept together. `asked` bytes of the promise to the tenant are new; `without` is
  /// the promise without these bytes.
  [[nodiscard]] Result<void> check(const machine::Device& device, const std::string& tenant, Bytes asked,
                                   Bytes without) const;

  Bytes reserved_;
  std::map<std::string, Share> tenants_;
};

}  // namespace ration::admission
