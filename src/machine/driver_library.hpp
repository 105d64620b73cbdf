// Loads one of the driver's libraries at run time and calls its functions by name; a library or function may be
// missing. Used by devices.cpp, checkpoint.cpp, driver_exports.cpp and cgroup_limits.cpp.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <string>
#include <vector>

namespace ration::machine {

/// One library of the driver. It stays loaded, so that pointers that its functions returned stay valid.
class Library {
 public:
  /// Opens the library in `folder`. If `folder` is empty, opens the library that a program started here would find
  /// (driver/location.hpp).
  Library(const std::string& folder, const char* soname);
  explicit operator bool() const { return handle_ != nullptr; }
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// Returns the path of the library's file, with links resolved.
  [[nodiscard]] const std::string& file() const { return file_; }
  /// Returns the toolkit's stubs that the search skipped before it found the library.
  [[nodiscard]] const std::vector<std::string>& stubs() const { return stubs_; }

  /// Returns the loader's entry of the library, which must be open.
  [[nodiscard]] const link_map* object() const {
    link_map* object = nullptr;
    ::dlinfo(handle_, RTLD_DI_LINKMAP, &object);
    return object;
  }

  /// Calls `name`, or returns `missing` if the library has no such function.
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
