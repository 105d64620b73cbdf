#include "config/settings.hpp"

#include "config/configuration.hpp"

namespace ration::config {

Result<Settings> read_settings() {
  const auto configuration = read_configuration();
  if (!configuration) return tl::unexpected(configuration.error());
  Settings settings;
  for (const Row& row : configuration->rows) {
    if (row.section == "defaults" && !row.origin.is_default()) settings[row.key] = {row.text, row.origin.text()};
  }
  return settings;
}

}  // namespace ration::config
