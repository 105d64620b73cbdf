// What is promised of one device: guarantees of tenants and of workloads, and what is sliced or kept free. The only
// arithmetic of promises. Used by the daemon, by commands where none runs, and for the configuration.
#pragma once

#include <map>
#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "machine/devices.hpp"

namespace ration::policy {

class Promises {
 public:
  /// `reserved`: sliced or kept free, so nobody's guarantee.
  explicit Promises(Bytes reserved = Bytes{0}) : reserved_(reserved) {}

  /// A workload of the tenant runs; it holds `used`.
  void add_workload(const std::string& tenant, Bytes guarantee, Bytes used = Bytes{0});
  /// The tenant's own guarantee. Those of its workloads are part of it.
  void set_tenant(const std::string& tenant, Bytes guarantee);

  /// To the tenant: its own guarantee, or those of its workloads where they are more.
  [[nodiscard]] Bytes to(const std::string& tenant) const;
  /// To the tenant's workloads.
  [[nodiscard]] Bytes to_workloads_of(const std::string& tenant) const;
  /// To all tenants, and reserved.
  [[nodiscard]] Bytes total() const;
  /// What the tenant's workloads hold, or were promised where that is more.
  [[nodiscard]] Bytes taken_by(const std::string& tenant) const;
  /// The same of all tenants.
  [[nodiscard]] Bytes taken() const;
  /// Of the total, what those it was promised to do not hold yet.
  [[nodiscard]] Bytes unspent() const;

  /// Whether `more` can be promised to a workload of the tenant beside all this. E1304.
  [[nodiscard]] Result<void> can_add(const machine::Device& device, const std::string& tenant, Bytes more) const;
  /// Whether the tenant's own guarantee can be that. E1304.
  [[nodiscard]] Result<void> can_set(const machine::Device& device, const std::string& tenant, Bytes guarantee) const;

 private:
  struct Share {
    Bytes own, of_workloads, used, unspent_of_workloads;
  };
  /// Whether all of this can be kept: `asked` of it are new, for the tenant, to which `without` were promised before.
  [[nodiscard]] Result<void> check(const machine::Device& device, const std::string& tenant, Bytes asked,
                                   Bytes without) const;

  Bytes reserved_;
  std::map<std::string, Share> tenants_;
};

}  // namespace ration::policy
