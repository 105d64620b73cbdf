#include "machine/cgroup_limits.hpp"

#include <fmt/format.h>

#include "driver/nvml_abi.hpp"
#include "machine/driver_library.hpp"

namespace ration::machine {
namespace {

using namespace nvml;

/// Returns NVML, which is loaded once and not with each query.
const Library& library(const std::string& driver_folder) {
  static const Library loaded(driver_folder, "libnvidia-ml.so.1");
  static const bool started = loaded && loaded.call("nvmlInit_v2", NVML_ERROR_NOT_SUPPORTED) == NVML_SUCCESS;
  (void)started;  // unused: if NVML did not start, the next call reports NVML_ERROR_UNINITIALIZED
  return loaded;
}

Result<nvmlDevice_t> handle_of(const Library& nvml, int device) {
  nvmlDevice_t handle{};
  if (!nvml) return fail("E1551", nvml.problem(), "ration doctor", 1);
  if (nvml.call("nvmlDeviceGetHandleByIndex_v2", NVML_ERROR_NOT_SUPPORTED, static_cast<unsigned int>(device),
                &handle) != NVML_SUCCESS)
    return fail("E1551", fmt::format("NVML has no GPU {}.", device), "ration doctor", 1);
  return handle;
}

Result<void> result(nvmlReturn_t answer, const std::string& cgroup) {
  switch (answer) {
    case NVML_SUCCESS:
      return {};
    case NVML_ERROR_NOT_SUPPORTED:
      return fail(
          "E1551",
          "this driver cannot enforce a memory limit on a control group: such limits need release 615 or newer, "
          "cgroup v2 and no MIG.",
          "Nothing to do: the guard enforces the limits.", 1);
    case NVML_ERROR_NO_PERMISSION:
      return fail("E1552", fmt::format("this user may not set the driver's limit of {}.", cgroup),
                  "Run the daemon as root.", 5);
    default:
      return fail("E1553",
                  fmt::format("the driver rejected the limit of {} with error {}.", cgroup, static_cast<int>(answer)),
                  "ration doctor", 1);
  }
}

}  // namespace

Result<void> set_cgroup_limit(const std::string& driver_folder, int device, const std::string& cgroup,
                              std::optional<Bytes> limit) {
  const Library& nvml = library(driver_folder);
  RATION_TRY(const auto handle, handle_of(nvml, device));
  nvmlSetMemoryLimits_v1_t request{cgroup.c_str(), 0, limit ? limit->count() : kNoMemoryLimit};
  return result(nvml.call("nvmlDeviceSetMemoryLimits_v1", NVML_ERROR_NOT_SUPPORTED, handle, &request), cgroup);
}

Result<std::optional<Bytes>> cgroup_limit(const std::string& driver_folder, int device, const std::string& cgroup) {
  const Library& nvml = library(driver_folder);
  RATION_TRY(const auto handle, handle_of(nvml, device));
  nvmlGetMemoryLimits_v1_t found{cgroup.c_str(), 0, 0, 0};
  if (auto good = result(nvml.call("nvmlDeviceGetMemoryLimits_v1", NVML_ERROR_NOT_SUPPORTED, handle, &found), cgroup);
      !good)
    return tl::unexpected(good.error());
  return found.hardLimit == kNoMemoryLimit ? std::nullopt : std::optional(Bytes{found.hardLimit});
}

}  // namespace ration::machine
