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
  /// Adds an entry. If the user has too many entries, first forgets them all; the configuration then decides which
  /// tenant is charged for their books.
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
