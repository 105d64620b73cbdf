// Adds up the memory of devices, and the part of it that is taken: outside the queue, by leases, and by tenants'
// guarantees. Uses no files, clock or driver. Unlike admission/promises.hpp, which adds up guarantees only, Capacity
// also counts usage without a promise, and leases under which nothing runs yet.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"

namespace ration::node {

/// The most that leases of one tenant can ever have on a device, and what bounds it.
struct Ceiling {
  int gpu = 0;
  Bytes bytes;               ///< size of the device, without `for_others` and within `limit`
  Bytes for_others;          ///< guarantees of other tenants
  Bytes limit = kUnlimited;  ///< limit of the tenant
};

class Capacity {
 public:
  /// Sets a device. `promised` is kept for guarantees, slices and workloads without a lease. The device has no room
  /// while `promised` and the leases together exceed `whole`.
  void set_device(int gpu, Bytes whole, Bytes promised);
  /// Sets a tenant's limit and guarantee on a device. `promised` is the part that the tenant's workloads without a
  /// lease take there.
  void set_tenant(const std::string& tenant, int gpu, Bytes limit, Bytes guarantee, Bytes promised);

  /// Adds a lease: `need` bytes of each device, of which `of_tenant` count for the tenant.
  void take(const std::vector<int>& gpus, const std::string& tenant, Bytes need, Bytes of_tenant);
  void release(const std::vector<int>& gpus, const std::string& tenant, Bytes need, Bytes of_tenant);

  [[nodiscard]] std::vector<int> gpus() const;
  /// Returns the size of the device; nothing for an unknown one.
  [[nodiscard]] std::optional<Bytes> whole(int gpu) const;
  /// Returns the bytes of a device that are neither promised nor leased.
  [[nodiscard]] Bytes free_on(int gpu) const;
  /// Returns the part of the free bytes that other tenants are guaranteed, and the names of those tenants.
  [[nodiscard]] Bytes kept_for_others(int gpu, const std::string& tenant) const;
  [[nodiscard]] std::vector<std::string> others_kept_for(int gpu, const std::string& tenant) const;
  /// Returns true if each device has `need` bytes for the tenant beside the guarantees of others.
  [[nodiscard]] bool has_room(const std::vector<int>& gpus, Bytes need, const std::string& tenant) const;
  /// Returns true if the device would have `need` bytes after the end of all leases. Without `beside_promises`, returns
  /// true if the empty device would have them.
  [[nodiscard]] bool could_hold(int gpu, Bytes need, const std::string& tenant, bool beside_promises) const;
  /// Returns the bytes to free on the device before it has room; 0 or less if it has room.
  [[nodiscard]] std::int64_t missing_on(int gpu, Bytes need, const std::string& tenant) const;
  /// Returns the most that the tenant can ever have on a device that exists, even while nothing else runs there;
  /// without `within_limit`, as if the tenant had no limit.
  [[nodiscard]] Ceiling ceiling(int gpu, const std::string& tenant, bool within_limit) const;
  /// Returns the tenants, except this one, that have guarantees on the device.
  [[nodiscard]] std::vector<std::string> others_guaranteed(int gpu, const std::string& tenant) const;
  /// Returns the tenant's limit on the device; nothing if it has none there.
  [[nodiscard]] std::optional<Bytes> tenant_limit(const std::string& tenant, int gpu) const;
  /// Returns the bytes that the tenant's leases can have together on the device; kUnlimited without a limit.
  [[nodiscard]] Bytes for_leases_of(const std::string& tenant, int gpu) const;
  /// Returns the tenant's remaining bytes on the tightest of these devices; kUnlimited without a limit.
  [[nodiscard]] Bytes tenant_room(const std::string& tenant, const std::vector<int>& gpus) const;

 private:
  struct Device {
    Bytes whole, promised, leased;
  };
  struct Share {
    std::optional<Bytes> limit;  ///< absent if not set
    Bytes guarantee, promised, leased;
    /// Returns the part of the guarantee that neither workloads nor leases of the tenant use.
    [[nodiscard]] Bytes kept() const;
  };

  std::map<int, Device> devices_;
  std::map<std::pair<std::string, int>, Share> tenants_;
};

}  // namespace ration::node
