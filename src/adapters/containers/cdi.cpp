#include "adapters/containers/cdi.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/whole_file.hpp"

namespace ration::adapters::cdi {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kVersion = "0.5.0";  // the oldest version that has the hooks and mounts used here

bool is_alphanumeric(unsigned char letter) { return letter < 0x80 && std::isalnum(letter) != 0; }

std::string path_of(const std::string& folder, const std::string& file) { return folder + "/ration-" + file + ".json"; }

tl::unexpected<Error> not_written(const std::string& path) {
  return fail("E1704",
              fmt::format("{} cannot be written: {}. Without it, no container engine knows these devices.", path,
                          std::strerror(errno)),
              "Give the daemon another folder that the engine reads too: [containers] cdi = \"/etc/cdi\"", 1);
}

}  // namespace

std::vector<std::string> assignments(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> list;
  for (const auto& [name, value] : variables) list.push_back(name + "=" + value);
  return list;
}

std::vector<std::string> mount_options(const Mount& mount) {
  return {mount.writable ? "rw" : "ro", "nosuid", "nodev", "rbind", "rprivate"};
}

Hook hook_of(const Device& device, const Edits& edits) {
  std::vector<std::string> words{"ration", kHookVerb};
  words.insert(words.end(), edits.hook_words.begin(), edits.hook_words.end());
  words.insert(words.end(), {"start", device.kind + "=" + device.name});
  return {"createRuntime", edits.hook, std::move(words), assignments(edits.hook_variables)};
}

bool is_device_name(const std::string& name) {
  return !name.empty() && is_alphanumeric(name.front()) && is_alphanumeric(name.back()) &&
         std::all_of(name.begin(), name.end(), [](unsigned char letter) {
           return is_alphanumeric(letter) || std::strchr("_-.:", letter) != nullptr;
         });
}

std::string specification(const std::string& kind, const std::vector<std::string>& names, const Edits& edits) {
  auto mounts = ordered_json::array();
  for (const Mount& mount : edits.mounts)
    mounts.push_back({{"hostPath", mount.from}, {"containerPath", mount.to}, {"options", mount_options(mount)}});
  auto devices = ordered_json::array();
  for (const std::string& name : names) {
    if (!is_device_name(name)) continue;
    const Hook hook = hook_of({kind, name}, edits);
    const auto hooks = ordered_json::array(
        {{{"hookName", hook.when}, {"path", hook.path}, {"args", hook.words}, {"env", hook.variables}}});
    devices.push_back({{"name", name}, {"containerEdits", {{"hooks", hooks}}}});
  }
  return ordered_json{{"cdiVersion", kVersion},
                      {"kind", std::string(kVendor) + "/" + kind},
                      {"devices", devices},
                      {"containerEdits", {{"env", assignments(edits.variables)}, {"mounts", mounts}}}}
             .dump(2) +
         "\n";
}

Result<void> write(const std::string& folder, const std::string& file, const std::string& specification) {
  std::error_code error;
  fs::create_directories(folder, error);
  const std::string path = path_of(folder, file);
  if (!write_whole(path, specification, 0644)) return not_written(path);  // engines skip the temporary *.new
  return {};
}

void remove(const std::string& folder, const std::string& file) { ::unlink(path_of(folder, file).c_str()); }

void note_use(const std::string& folder, const std::string& file) {
  ::utimensat(AT_FDCWD, path_of(folder, file).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

void remove_oldest(const std::string& folder, const std::string& beginning, std::size_t kept) {
  std::vector<std::pair<fs::file_time_type, std::string>> files;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end; each.increment(error)) {
    const std::string path = each->path().string();
    std::error_code gone;
    const auto time = each->last_write_time(gone);
    if (!gone && each->path().extension() == ".json" && path.rfind(folder + "/ration-" + beginning, 0) == 0)
      files.emplace_back(time, path);
  }
  std::sort(files.rbegin(), files.rend());
  for (std::size_t number = kept; number < files.size(); ++number) ::unlink(files[number].second.c_str());
}

Result<void> check_unique(const std::vector<std::string>& folders, const std::string& file, const Device& device) {
  for (const std::string& folder : folders) {
    std::error_code error;
    for (fs::directory_iterator each(folder, error), end; !error && each != end; each.increment(error)) {
      const std::string path = each->path().string();
      if (each->path().extension() != ".json" || path == path_of(folder, file)) continue;
      const auto other = nlohmann::json::parse(read_whole(path).value_or(""), nullptr, false);
      if (!other.is_object() || other.value("kind", nlohmann::json()) != std::string(kVendor) + "/" + device.kind)
        continue;
      const auto devices = other.value("devices", nlohmann::json());
      const bool same = std::any_of(devices.begin(), devices.end(), [&](const auto& known) {
        return known.is_object() && known.value("name", nlohmann::json()) == device.name;
      });
      if (same)
        return fail("E1705",
                    fmt::format("{} also describes {}: engines reject a device that two files describe.", path,
                                device.qualified()),
                    "rm " + path, 1);
    }
  }
  return {};
}

}  // namespace ration::adapters::cdi
