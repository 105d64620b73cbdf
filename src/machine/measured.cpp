#include "machine/measured.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/whole_file.hpp"

namespace ration::machine {
namespace {

nlohmann::json read(const std::string& path) {
  auto all = nlohmann::json::parse(read_whole(path).value_or(""), nullptr, false);
  return all.is_object() ? all : nlohmann::json::object();
}

std::string key_of(const Device& device, const std::string& driver_version) {
  return device.uuid + " " + driver_version;
}

}  // namespace

nlohmann::json measured(const std::string& file, const Device& device, const std::string& driver_version) {
  const auto all = read(file);
  const auto found = all.find(key_of(device, driver_version));
  return found == all.end() ? nlohmann::json() : *found;
}

void remember(const std::string& file, const Device& device, const std::string& driver_version, nlohmann::json value) {
  auto all = read(file);
  all[key_of(device, driver_version)] = std::move(value);
  const std::string fresh = file + fmt::format(".{}", ::getpid());
  if (std::ofstream(fresh) << all.dump(1) << "\n") {
    std::error_code error;  // ignores an error: without a file the value is measured again
    std::filesystem::rename(fresh, file, error);
  }
}

}  // namespace ration::machine
