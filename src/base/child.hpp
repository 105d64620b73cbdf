// A child process that works beside the daemon and answers with a few lines.
// Promises: never waits; the child survives the daemon; its output is read up to 64 KiB.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"

namespace ration {

class Child {
 public:
  struct Ended {
    int status = 0;      ///< from waitpid()
    std::string output;  ///< its standard output; its errors go to the daemon's
  };

  /// Starts a program, which is looked up as in a shell. `input`: its standard input. E1548.
  [[nodiscard]] static Result<Child> start(std::vector<std::string> words, const std::string& input);

  /// Absent: the child still runs.
  [[nodiscard]] std::optional<Ended> poll();

 private:
  Child(pid_t pid, FileDescriptor output) : pid_(pid), output_(std::move(output)) {}
  void read_output();

  pid_t pid_ = 0;
  FileDescriptor output_;
  std::string text_;
};

}  // namespace ration
