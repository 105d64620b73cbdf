// The memory of one device that is promised: guarantees of tenants and of workloads, and what is sliced or kept free.
// The only arithmetic of promises. Used by the daemon, by commands if none runs, and for the configuration.
#pragma once

#include <map>
#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "machine/devices.hpp"

namespace ration::admission {

class Promises {
 public:
  /// `reserved` is sliced or kept free, so it belongs to no guarantee.
  explicit Promises(Bytes reserved = Bytes{0}) : reserved_(reserved) {}

  /// Adds a running workload of the tenant, which holds `used`.
  void add_workload(const std::string& tenant, Bytes guarantee, Bytes used = Bytes{0});
  /// Sets the tenant's own guarantee, which includes those of its workloads.
  void set_tenant(const std::string& tenant, Bytes guarantee);

  /// Returns what is promised to the tenant: its own guarantee, or those of its workloads if they are more.
  [[nodiscard]] Bytes to(const std::string& tenant) const;
  /// Returns what is promised to the tenant's workloads.
  [[nodiscard]] Bytes to_workloads_of(const std::string& tenant) const;
  /// Returns what is promised to all tenants, and reserved.
  [[nodiscard]] Bytes total() const;
  /// Returns what the tenant's workloads hold, or were promised if that is more.
  [[nodiscard]] Bytes taken_by(const std::string& tenant) const;
  /// As taken_by(), for all tenants.
  [[nodiscard]] Bytes taken() const;
  /// Returns the part of the total that its holders do not use yet.
  [[nodiscard]] Bytes unspent() const;

  /// Checks that `more` can be promised to a workload of the tenant in addition. E1304.
  [[nodiscard]] Result<void> can_add(const machine::Device& device, const std::string& tenant, Bytes more) const;
  /// Checks that the tenant's own guarantee can be set to this. E1304.
  [[nodiscard]] Result<void> can_set(const machine::Device& device, const std::string& tenant, Bytes guarantee) const;

 private:
  struct Share {
    Bytes own, of_workloads, used, unspent_of_workloads;
  };
  /// Checks that all of this can be kept; `asked` of it is new, for the tenant, which was promised `without` before.
  [[nodiscard]] Result<void> check(const machine::Device& device, const std::string& tenant, Bytes asked,
                                   Bytes without) const;

  Bytes reserved_;
  std::map<std::string, Share> tenants_;
};

}  // namespace ration::admission
