// The driver's libraries, asked by name at run time: any version of them, or none. Used by devices.cpp, checkpoint.cpp,
// driver_exports.cpp and cgroup_limits.cpp.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <string>
#include <vector>

namespace ration::machine {

/// One library of the driver, kept open: what it hands out stays valid.
class Library {
 public:
  /// `folder`: where it is; empty: as a program that was started here would find it (driver/location.hpp).
  Library(const std::string& folder, const char* soname);
  explicit operator bool() const { return handle_ != nullptr; }
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// The file behind all links.
  [[nodiscard]] const std::string& file() const { return file_; }
  /// Files that came before it and are no driver: of the toolkit, to link with.
  [[nodiscard]] const std::vector<std::string>& stubs() const { return stubs_; }

  /// As the loader knows it. Only where it could be opened.
  [[nodiscard]] const link_map* object() const {
    link_map* object = nullptr;
    ::dlinfo(handle_, RTLD_DI_LINKMAP, &object);
    return object;
  }

  /// Calls `name`, or says `missing` where the library has no such function.
  template <typename Answer, typename... Arguments>
  Answer call(const char* name, Answer missing, Arguments... arguments) const {
    auto* function = reinterpret_cast<Answer (*)(Arguments...)>(::dlsym(handle_, name));
    return function == nullptr ? missing : function(arguments...);
  }

 private:
  bool take(const char* path);

  void* handle_ = nullptr;
  std::string problem_, file_;
  std::vector<std::string> stubs_;
};

}  // namespace ration::machine
