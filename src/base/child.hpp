// A child process that works while the daemon goes on, and answers with a few lines. Promises: no call waits; the child
// survives the daemon; at most 64 KiB of its output are read.
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
    std::string output;  ///< standard output of the child; its standard error is the daemon's
  };

  /// Starts a program with `input` as its standard input. Finds the program as a shell does. Fails with E1548.
  [[nodiscard]] static Result<Child> start(std::vector<std::string> words, const std::string& input);

  /// Returns the child's status and output after its end; absent while the child still runs.
  [[nodiscard]] std::optional<Ended> poll();

 private:
  Child(pid_t pid, FileDescriptor output) : pid_(pid), output_(std::move(output)) {}
  void read_output();

  pid_t pid_ = 0;
  FileDescriptor output_;
  std::string text_;
};

}  // namespace ration
