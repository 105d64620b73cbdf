// The user who asks the daemon for a change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ration::node {

struct Caller {
  std::string name;  ///< user name, for the record
  std::optional<std::uint32_t> user;
  bool is_operator = false;
};

}  // namespace ration::node
