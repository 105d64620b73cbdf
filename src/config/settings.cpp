#include "config/settings.hpp"

#include <cstdlib>

#include "config/configuration.hpp"

namespace ration::config {

Result<Settings> read_settings() {
  RATION_TRY(const auto configuration, read_configuration());
  Settings settings;
  for (const Row& row : configuration.rows) {
    if (row.section == "defaults" && !row.origin.is_default()) settings[row.key] = {row.text, row.origin.text()};
  }
  if (!configuration.compat_hami.value) return settings;
  for (const char* name : {"CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT_0"})
    if (const char* limit = std::getenv(name); limit != nullptr && *limit != '\0') settings["limit"] = {limit, name};
  return settings;
}

}  // namespace ration::config
