#include "config/settings.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "base/own_folder.hpp"
#include "base/whole_file.hpp"

namespace ration::config {
namespace {

const std::string kAccepted = std::string(kMachineFolder) + "/accepted.toml";

std::string machine_file() { return configuration_files().front().path; }

/// Replaces the machine's file by what its daemon accepted. Returns false if there is no such file of root.
bool take_accepted(std::vector<Layer>& layers) {
  struct stat status {};
  if (::lstat(kAccepted.c_str(), &status) != 0 || status.st_uid != 0) return false;
  auto text = read_whole(kAccepted, kMaxDocument, Links::kRejected);
  if (!text) return false;
  for (Layer& layer : layers)
    if (layer.name == machine_file()) layer.text = *text;
  return true;
}

}  // namespace

void keep_accepted(const Configuration& accepted) {
  const auto concerns_starts = [](const Row& row) {
    return row.section == "defaults" || row.section == "compat" || row.section == "containers" ||
           (row.section == "daemon" && row.key == "socket");
  };
  std::string text;
  for (const Row& row : accepted.rows)
    if (row.origin.file == machine_file() && concerns_starts(row))
      text += fmt::format("{}.{} = {}\n", row.section, row.key, row.value);
  (void)write_whole(kAccepted, text, 0644);
}

Result<Accepted> read_accepted() {
  RATION_TRY(auto layers, read_layers(configuration_files()));
  Reading reading = parse_configuration(layers);
  if (reading.problems.empty()) return Accepted{std::move(reading.configuration), ""};
  const std::vector<FileProblem> problems = reading.problems;
  const bool of_the_machine = std::all_of(problems.begin(), problems.end(),
                                          [](const FileProblem& each) { return each.file == machine_file(); });
  if (of_the_machine && take_accepted(layers)) reading = parse_configuration(layers);
  if (!reading.problems.empty()) return tl::unexpected(rejected(reading.problems));
  return Accepted{std::move(reading.configuration),
                  fmt::format("{}: {}", place_text(problems.front()), problems.front().what)};
}

Result<Settings> read_settings() {
  RATION_TRY(const auto accepted, read_accepted());
  const Configuration& configuration = accepted.configuration;
  Settings settings{{}, accepted.doubt};
  for (const Row& row : configuration.rows) {
    if (row.section == "defaults" && !row.origin.is_default()) settings.values[row.key] = {row.text, row.origin.text()};
  }
  if (!configuration.compat_hami.value) return settings;
  for (const char* name : {"CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT_0"})
    if (const char* limit = std::getenv(name); limit != nullptr && *limit != '\0')
      settings.values["limit"] = {limit, name};
  return settings;
}

}  // namespace ration::config
