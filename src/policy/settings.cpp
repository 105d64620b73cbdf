#include "policy/settings.hpp"

#include "policy/configuration.hpp"

namespace ration::policy {

Result<Settings> read_settings() {
  const auto configuration = read_configuration();
  if (!configuration) return tl::unexpected(configuration.error());
  Settings settings;
  for (const Row& row : configuration->rows) {
    if (row.section == "defaults" && !row.origin.is_default()) settings[row.key] = {row.text, row.origin.text()};
  }
  return settings;
}

}  // namespace ration::policy
