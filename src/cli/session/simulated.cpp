#include "cli/session/simulated.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "base/strings.hpp"
#include "base/whole_file.hpp"
#include "machine/enforcement.hpp"

namespace ration::cli {
namespace {

namespace fs = std::filesystem;

/// The libraries to preload. Those that programs link with come first, each after the libraries that it needs; the last
/// one serves programs that open libraries by path.
constexpr const char* kLibraries[] = {"libcudart", "libcublasLt", "libcublas",         "libcudnn",
                                      "libcufft",  "libcurand",   "libcusparse",       "libcusolver",
                                      "libnccl",   "libcupti",    "libration_sim_open"};

/// Returns the folders of an installation in which a CUDA runtime may lie.
std::vector<fs::path> library_folders(const fs::path& prefix) {
  std::vector<fs::path> result;
  std::error_code error;
  const auto add = [&](const fs::path& folder) {
    if (fs::is_directory(folder, error)) result.push_back(folder);
  };
  for (const auto& python : fs::directory_iterator(prefix / "lib", error)) {
    if (python.path().filename().string().rfind("python3", 0) != 0) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      // NVIDIA's wheels put libraries into nvidia/cu13/lib, or into nvidia/cuda_runtime/lib and the like.
      for (const auto& part : fs::directory_iterator(python.path() / packages / "nvidia", error))
        add(part.path() / "lib");
    }
  }
  add(prefix / "lib");
  std::sort(result.begin(), result.end());
  return result;
}

/// Returns the major versions of libcudart.so.N in a folder.
std::set<int> versions_in(const fs::path& folder) {
  std::set<int> result;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    const std::string name = file.path().filename().string(), stem = "libcudart.so.";
    if (name.rfind(stem, 0) == 0 && std::isdigit(static_cast<unsigned char>(name[stem.size()])) != 0)
      result.insert(std::atoi(name.c_str() + stem.size()));
  }
  return result;
}

struct Environment {
  std::string prefix;
  std::set<int> versions;
  std::vector<fs::path> folders;
};

/// Returns the first of three installations that has a CUDA runtime: the program's own, the active virtual environment,
/// and that of the first python3 in PATH.
Environment find_runtime(const std::string& program) {
  std::vector<fs::path> prefixes;
  const auto add_program = [&](const std::string& name) {
    const auto examined = machine::examine_program({name});
    if (examined) prefixes.push_back(fs::absolute(examined->program).parent_path().parent_path());
  };
  if (!program.empty()) add_program(program);
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* value = std::getenv(variable); value != nullptr && *value != '\0') prefixes.emplace_back(value);
  }
  add_program("python3");
  for (const fs::path& prefix : prefixes) {
    Environment result{prefix.string(), {}, library_folders(prefix)};
    for (const fs::path& folder : result.folders) result.versions.merge(versions_in(folder));
    if (!result.versions.empty()) return result;
  }
  return {prefixes.empty() ? "" : prefixes.front().string(), {}, {}};
}

/// Returns the CUDA versions whose runtime the simulator has.
std::set<int> simulated_versions(const std::string& simulator) {
  std::set<int> result;
  std::error_code error;
  for (const auto& folder : fs::directory_iterator(simulator, error)) {
    const std::string name = folder.path().filename().string();
    if (name.rfind("cuda", 0) == 0 && folder.is_directory(error)) result.insert(std::atoi(name.c_str() + 4));
  }
  return result;
}

/// Adds the libraries of those versions, the newest first. Skips a library if `preload` has a file of that name
/// already, since cuDNN and NCCL have the same name in every version.
void put_in_front(const std::string& simulator, const std::set<int>& versions, std::vector<std::string>& preload) {
  std::set<std::string> names;
  for (const std::string& file : preload) names.insert(fs::path(file).filename().string());
  for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
    for (const char* library : kLibraries) {
      for (const auto& file : fs::directory_iterator(fs::path(simulator) / fmt::format("cuda{}", *version))) {
        const std::string name = file.path().filename().string();
        if (name.rfind(std::string(library) + ".so.", 0) == 0 && names.insert(name).second)
          preload.push_back(file.path().string());
      }
    }
  }
}

/// Returns the driver of a simulated node, named by `driver=` in its description, by `driver` in the file that the
/// description names, or by RATION_SIM_DRIVER.
std::string driver_of(const std::string& description) {
  static const std::regex in_description("(?:^|,)driver=([^,]*)"), in_file("^driver *= *[\"']([^\"']*)");
  std::smatch found;
  if (std::regex_search(description, found, in_description)) return found[1];
  std::istringstream file(description.ends_with(".toml") ? read_whole(description).value_or("") : "");
  for (std::string line; std::getline(file, line);)
    if (std::regex_search(line, found, in_file)) return found[1];
  const char* const usual = std::getenv("RATION_SIM_DRIVER");
  return usual != nullptr ? usual : "";
}

}  // namespace

std::string simulated_driver_folder(const std::string& simulator) {
  const char* description = std::getenv("RATION_SIM");
  const std::string driver = driver_of(description != nullptr ? description : "");
  for (const std::string& name : {driver, driver.substr(0, driver.find('.'))}) {
    const fs::path folder = fs::path(simulator) / "drivers" / name;
    std::error_code error;
    if (!name.empty() && name.find('/') == std::string::npos && fs::exists(folder / "libcuda.so.1", error))
      return folder.string();
  }
  return simulator;
}

Result<SimulatedLibraries> simulated_libraries(const std::string& driver_folder, const std::string& program,
                                               const std::string& versions) {
  if (versions == "none") return SimulatedLibraries{{}, {}, "the driver alone"};
  const bool automatic = versions.empty() || versions == "auto";
  const Environment around = find_runtime(program);
  std::set<int> wanted = around.versions;
  if (!automatic) {
    wanted.clear();
    for (const std::string_view one : ration::split(versions, ',')) {
      if (one.empty() || one.size() > 3 || one.find_first_not_of("0123456789") != std::string_view::npos)
        return fail("E1426", fmt::format("'{}' is not a CUDA version.", versions), "--sim-cuda 12, 13, auto or none",
                    2);
      wanted.insert(std::stoi(std::string(one)));
    }
  }
  const std::set<int> simulated = simulated_versions(driver_folder);
  for (const int version : wanted) {
    if (simulated.contains(version)) continue;
    return fail(
        "E1425",
        automatic ? fmt::format("the CUDA runtime in {} is version {}, which is not simulated.", around.prefix, version)
                  : fmt::format("CUDA {} is not simulated.", version),
        "CUDA 12 and 13 are simulated. Install the framework's build for one of them, or do not simulate the "
        "runtime: --sim-cuda none",
        2);
  }
  SimulatedLibraries result;
  put_in_front(driver_folder, wanted, result.preload);
  // `program` may start other programs that need another CUDA version. Each of them finds its runtime by the name of
  // the library.
  if (automatic) put_in_front(driver_folder, simulated, result.preload);
  for (const fs::path& folder : around.folders) {
    if (folder.parent_path().parent_path().filename() == "nvidia") result.folders.push_back(folder.string());
  }
  if (automatic && wanted.empty())
    result.found =
        fmt::format("the driver, and CUDA {} for programs that ask for it (no CUDA runtime in {})",
                    fmt::join(simulated, " or "), around.prefix.empty() ? "this environment" : around.prefix);
  else
    result.found = fmt::format("the driver and CUDA {}{}", fmt::join(wanted, " and "),
                               automatic ? ", as in " + around.prefix : "");
  return result;
}

}  // namespace ration::cli
