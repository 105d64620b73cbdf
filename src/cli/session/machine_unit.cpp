#include "cli/session/machine_unit.hpp"

#include <unistd.h>

namespace ration::cli {

std::string packaged_unit() {
  for (const char* path : {"/usr/lib/systemd/system/rationd.service", "/lib/systemd/system/rationd.service"})
    if (::access(path, F_OK) == 0) return path;
  return "";
}

bool has_machine_unit() { return ::access(kMachineUnit, F_OK) == 0 || !packaged_unit().empty(); }

}  // namespace ration::cli
