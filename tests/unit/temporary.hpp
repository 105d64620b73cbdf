// A folder, and a variable of the environment, for as long as one test lasts.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace ration {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = "/tmp/ration-test-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Of a file in it, which is there only after write().
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// Returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(file(name)).parent_path());
    std::ofstream out(file(name), std::ios::binary);
    out << content;
    return file(name);
  }
  std::string write_program(const std::string& name, const std::string& content) const {
    std::string path = write(name, content);
    std::filesystem::permissions(path, std::filesystem::perms(0755));
    return path;
  }
  [[nodiscard]] std::string content(const std::string& name) const {
    std::ifstream in(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  std::string path_;
};

/// Sets a variable; `value` null: takes it away. As it was before, afterwards.
class TemporaryVariable {
 public:
  TemporaryVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = ::getenv(name); before != nullptr) before_ = before;
    set(value);
  }
  ~TemporaryVariable() { set(before_ ? before_->c_str() : nullptr); }
  TemporaryVariable(const TemporaryVariable&) = delete;
  TemporaryVariable& operator=(const TemporaryVariable&) = delete;

 private:
  void set(const char* value) const {
    if (value != nullptr)
      ::setenv(name_, value, 1);
    else
      ::unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace ration
