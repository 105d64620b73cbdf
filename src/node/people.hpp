// Users and groups of this machine by name. Used by everything that shows or checks who somebody is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ration::node {

/// Of this machine.
[[nodiscard]] std::string host_name();

/// `alice`, or `uid 1004` where nobody knows the name.
[[nodiscard]] std::string user_name(std::uint32_t user);

/// Names of the user's groups; empty where the user is not known.
[[nodiscard]] std::vector<std::string> groups_of(std::uint32_t user);

}  // namespace ration::node
