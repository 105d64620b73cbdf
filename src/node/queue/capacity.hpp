// What devices can give, and what of it is taken: outside the queue, by leases, and kept for tenants. Used by the
// queue, which asks it for every place. Pure.
// It is not policy/promises: there guarantees are added up, here all that keeps a device from those who wait, which
// includes what is held without a promise and leases that nobody uses yet.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"

namespace ration::node {

class Capacity {
 public:
  /// A device, and what of it is spoken for outside the queue: guarantees, slices, what runs without a lease. If that
  /// grows over what the leases leave, nothing is left there until it falls.
  void set_device(int gpu, Bytes whole, Bytes promised);
  /// What a tenant may hold of a device at most, what is kept for it there, and what it has outside the queue.
  void set_tenant(const std::string& tenant, int gpu, Bytes limit, Bytes guarantee, Bytes promised);

  /// A lease on these devices: `need` of each, of which `of_tenant` counts for its tenant.
  void take(const std::vector<int>& gpus, const std::string& tenant, Bytes need, Bytes of_tenant);
  void give_back(const std::vector<int>& gpus, const std::string& tenant, Bytes need, Bytes of_tenant);

  [[nodiscard]] std::vector<int> gpus() const;
  /// Absent: there is no such device.
  [[nodiscard]] std::optional<Bytes> whole(int gpu) const;
  /// What of a device is neither promised nor leased.
  [[nodiscard]] Bytes free_on(int gpu) const;
  /// Of that, what is kept for other tenants, and for whom.
  [[nodiscard]] Bytes kept_for_others(int gpu, const std::string& tenant) const;
  [[nodiscard]] std::vector<std::string> others_kept_for(int gpu, const std::string& tenant) const;
  /// Whether each of these devices has so much for the tenant beside what is kept for others.
  [[nodiscard]] bool has_room(const std::vector<int>& gpus, Bytes need, const std::string& tenant) const;
  /// Whether the device could have it if all leases ended. `beside_promises`: and nothing else did.
  [[nodiscard]] bool could_hold(int gpu, Bytes need, const std::string& tenant, bool beside_promises) const;
  /// Bytes that have to be given back on the device before it has room there; not above 0: it has.
  [[nodiscard]] std::int64_t missing_on(int gpu, Bytes need, const std::string& tenant) const;
  /// Absent: the tenant may hold as much as it likes there.
  [[nodiscard]] std::optional<Bytes> tenant_limit(const std::string& tenant, int gpu) const;
  /// What the tenant may still be given on the least of these devices; kUnlimited: as much as it likes.
  [[nodiscard]] Bytes tenant_room(const std::string& tenant, const std::vector<int>& gpus) const;

 private:
  struct Device {
    Bytes whole, promised, leased;
  };
  struct Share {
    std::optional<Bytes> limit;  ///< absent: nobody said anything of it
    Bytes guarantee, promised, leased;
    /// Of its guarantee, what it does not have yet.
    [[nodiscard]] Bytes kept() const;
  };

  std::map<int, Device> devices_;
  std::map<std::pair<std::string, int>, Share> tenants_;
};

}  // namespace ration::node
