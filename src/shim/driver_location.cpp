#include "shim/driver_location.hpp"

#include <cstdio>
#include <unistd.h>

#include "shim/environment.hpp"

namespace ration::shim {
namespace {

bool locate(const char* file, char* path, std::size_t size) noexcept {
  const char* folder = environment().driver_path;
  if (*folder != '\0') {
    const int length = std::snprintf(path, size, "%s/%s", folder, file);
    return length > 0 && static_cast<std::size_t>(length) < size && ::access(path, R_OK) == 0;
  }
  return false;
}

}  // namespace

bool locate_driver(char* path, std::size_t size) noexcept { return locate("libcuda.so.1", path, size); }
bool locate_nvml(char* path, std::size_t size) noexcept { return locate("libnvidia-ml.so.1", path, size); }

}  // namespace ration::shim
