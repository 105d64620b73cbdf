// Remembers which tenant each user may charge, from a workload's registration until its book is read.
// Promise: however many tenants a user requests, the entries take no more memory than the books of one user do.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "node/books/registry.hpp"

namespace ration::node {

class AllowedTenants {
 public:
  /// Adds an entry. Forgets the earlier entries of a user who has too many. The rules of the configuration then choose
  /// the tenant to charge for the books of those entries.
  void add(std::uint32_t user, std::string tenant) {
    auto& tenants = of_user_[user];
    if (tenants.size() >= Registry::kMaxBooks) tenants.clear();
    tenants.insert(std::move(tenant));
  }
  [[nodiscard]] bool has(std::uint32_t user, const std::string& tenant) const {
    const auto found = of_user_.find(user);
    return found != of_user_.end() && found->second.contains(tenant);
  }

 private:
  std::map<std::uint32_t, std::set<std::string>> of_user_;
};

}  // namespace ration::node
