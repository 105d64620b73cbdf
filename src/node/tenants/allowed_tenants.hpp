// Who may be charged to whom: what was found when a workload asked, until its book says it. Used by the engine.
// Promise: whoever asks for ever more tenants costs no more memory than one user's books.
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
  /// Of too many of one user the earlier ones are forgotten: those books are judged by the rules.
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
