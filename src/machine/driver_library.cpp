#include "machine/driver_library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "driver/location.hpp"

namespace ration::machine {
namespace {

/// Returns true under `ration run`: there the guard stands in front of the driver, and finds the driver itself.
bool is_guarded() { return ::dlsym(RTLD_DEFAULT, "ration_shim") != nullptr; }

}  // namespace

bool Library::take(const char* path) {
  const auto pass_over = [&] {
    if (std::find(stubs_.begin(), stubs_.end(), path) == stubs_.end()) stubs_.emplace_back(path);
    return false;
  };
  if (driver::is_stub(path)) return pass_over();
  void* opened = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    if (problem_.empty()) problem_ = ::dlerror();
    return false;
  }
  if (driver::is_stub_driver(opened)) {
    ::dlclose(opened);
    return pass_over();
  }
  handle_ = opened;
  return true;
}

Library::Library(const std::string& folder, const char* soname) {
  if (!folder.empty() || is_guarded()) {
    handle_ = ::dlopen(folder.empty() ? soname : (folder + "/" + soname).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) problem_ = ::dlerror();
  } else {
    driver::Seeker seeker;
    if (const char* folders = std::getenv("LD_LIBRARY_PATH"); folders != nullptr) seeker.library_path = folders;
    driver::read_program(seeker.program);
    driver::look_for(
        soname, seeker, [](void* self, const char* path) noexcept { return static_cast<Library*>(self)->take(path); },
        this);
    if (handle_ == nullptr && problem_.empty())
      problem_ = stubs_.empty() ? fmt::format("there is no {}", soname)
                                : fmt::format("there is no {} except the stub {}, which is only for linking", soname,
                                              stubs_.front());
  }
  if (handle_ == nullptr) return;
  problem_.clear();
  std::error_code error;
  file_ = std::filesystem::canonical(object()->l_name, error).string();
}

}  // namespace ration::machine
