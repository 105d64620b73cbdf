// Who asks the daemon to change something.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ration::node {

struct Caller {
  std::string name;  ///< of the user, for the record
  std::optional<std::uint32_t> user;
  bool is_operator = false;
};

}  // namespace ration::node
