// Names the users and groups of this machine. Used wherever a user is shown or checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ration::machine {

/// Returns the name of this machine.
[[nodiscard]] std::string host_name();

/// Returns `alice`, or `uid 1004` if the name is unknown.
[[nodiscard]] std::string user_name(std::uint32_t user);

/// Returns the names of the user's groups; empty if the user is unknown.
[[nodiscard]] std::vector<std::string> groups_of(std::uint32_t user);

/// Returns true if this machine has a user, or a group, of that name.
[[nodiscard]] bool is_user(const std::string& name);
[[nodiscard]] bool is_group(const std::string& name);

/// Returns true for root, for the daemon's own user, and for members of the group `ration`.
[[nodiscard]] bool is_operator(std::uint32_t user);
/// The beginning of a fix that only operators may type.
inline constexpr std::string_view kAskOperator = "Ask root or a member of group ration: ";

/// Returns true if `name` is the tenant of another user of this machine: the user's name, or `uid-1004`.
[[nodiscard]] bool names_another_user(const std::string& name, std::uint32_t user);

}  // namespace ration::machine
