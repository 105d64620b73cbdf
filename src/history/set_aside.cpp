#include "history/set_aside.hpp"

#include <fmt/format.h>

#include <ctime>
#include <filesystem>

namespace ration::history {

std::string set_aside(const std::string& path) {
  std::string aside;
  std::error_code error;
  const std::int64_t now = std::time(nullptr);
  for (int attempt = 0; aside.empty() || std::filesystem::exists(std::filesystem::symlink_status(aside, error));
       ++attempt)
    aside = fmt::format("{}.damaged-{}{}", path, now, attempt == 0 ? "" : fmt::format("-{}", attempt));
  std::filesystem::rename(path, aside, error);
  if (error) return {};
  for (const char* part : {"-wal", "-shm"}) std::filesystem::rename(path + part, aside + part, error);
  return aside;
}

}  // namespace ration::history
