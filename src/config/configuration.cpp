#include "config/configuration.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/whole_file.hpp"
#include "config/items.hpp"

namespace ration::config {

Reading parse_configuration(const std::vector<Layer>& layers, const Table& table) {
  Reading reading;
  std::vector<Item> items;
  for (const Layer& layer : layers) {
    const auto document = read_toml(layer.text, layer.name);
    if (!document) {
      reading.problems.push_back(document.error());
      continue;
    }
    auto read = read_items(table, *document, layer.name, reading.problems);
    check_items(read, reading.problems);
    merge(items, std::move(read));
  }
  add_defaults(table, items);
  reading.configuration = to_configuration(table, items);
  // Compares values only if each is valid by itself; otherwise an invalid value would be reported twice.
  if (reading.problems.empty()) check_consistency(reading.configuration, reading.problems);
  return reading;
}

Error rejected(const std::vector<FileProblem>& problems) {
  const FileProblem& first = problems.front();
  std::string fix = first.fix;
  if (problems.size() > 1) fix += fmt::format("   ({} more: ration config validate)", problems.size() - 1);
  struct stat status {};
  if (::stat(first.file.c_str(), &status) == 0 && status.st_uid != ::geteuid())
    fix += status.st_uid == 0 ? "   (only root can correct this file)" : "   (only its owner can correct this file)";
  return {"E1601", fmt::format("{}: {}", place_text(first), first.what), fix, 2};
}

std::string default_state_folder() {
  if (::getuid() == 0) return "/var/lib/ration";
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/')
    return std::string(state) + "/ration";
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "/tmp" : home) + "/.local/state/ration";
}

std::vector<ConfigurationFile> configuration_files() {
  std::vector<ConfigurationFile> files{{"/etc/ration/ration.toml", false}};
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string own = variable("RATION_CONFIG"); !own.empty())
    files.push_back({own, true});
  else if (const std::string config = variable("XDG_CONFIG_HOME"); !config.empty())
    files.push_back({config + "/ration/ration.toml", false});
  else if (const std::string home = variable("HOME"); !home.empty())
    files.push_back({home + "/.config/ration/ration.toml", false});
  return files;
}

namespace {

bool is_descriptor(const std::string& path) { return path == "/dev/stdin" || path.rfind("/dev/fd/", 0) == 0; }

}  // namespace

Result<std::vector<Layer>> read_layers(const std::vector<ConfigurationFile>& files) {
  std::vector<Layer> layers;
  for (const ConfigurationFile& entry : files) {
    // Opens a descriptor even if it refers to a pipe: the writer of that pipe exists already, so the opening does not
    // wait.
    const auto regular = is_descriptor(entry.path) ? tl::unexpected(std::string()) : open_regular(entry.path);
    std::ifstream file(regular ? path_of(*regular) : is_descriptor(entry.path) ? entry.path : "", std::ios::binary);
    std::string text;
    // Reads beyond the greatest size, so that a larger file is recognised; in pieces, since most files are small.
    std::array<char, 4096> piece;
    while (file && text.size() < kMaxDocument + piece.size()) {
      file.read(piece.data(), piece.size());
      text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
    }
    if (file.bad() || !file.is_open()) {
      if (entry.required)
        return fail("E1601",
                    fmt::format("{} cannot be read{}{}.", entry.path, regular || regular.error().empty() ? "" : ": ",
                                regular ? "" : regular.error()),
                    "Name another file with RATION_CONFIG or serve --config, or unset RATION_CONFIG.", 2);
      continue;
    }
    layers.push_back({entry.path, std::move(text)});
  }
  return layers;
}

Result<Configuration> read_configuration() {
  RATION_TRY(const auto layers, read_layers(configuration_files()));
  Reading reading = parse_configuration(layers);
  if (!reading.problems.empty()) return tl::unexpected(rejected(reading.problems));
  return std::move(reading.configuration);
}

}  // namespace ration::config
