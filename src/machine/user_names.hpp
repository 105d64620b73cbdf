// Users and groups of this machine by name. Used by everything that shows or checks who somebody is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ration::machine {

/// Of this machine.
[[nodiscard]] std::string host_name();

/// `alice`, or `uid 1004` where nobody knows the name.
[[nodiscard]] std::string user_name(std::uint32_t user);

/// Names of the user's groups; empty where the user is not known.
[[nodiscard]] std::vector<std::string> groups_of(std::uint32_t user);

/// Root, the daemon's own user, and members of group `ration`.
[[nodiscard]] bool is_operator(std::uint32_t user);
/// In front of a command that only operators may type.
inline constexpr std::string_view kAskOperator = "Ask root or a member of group ration: ";

/// Whether `name` is what another user of this machine is charged as: its name, or `uid-1004`.
[[nodiscard]] bool names_another_user(const std::string& name, std::uint32_t user);

}  // namespace ration::machine
