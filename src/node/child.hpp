// A program that works beside the daemon and answers with a line or two. Used by checkpoint_jobs.cpp and webhook.cpp.
// Promises: never waits; a child goes on when the daemon ends; what it prints is read up to 64 KiB.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/result.hpp"

namespace ration::node {

class Child {
 public:
  struct Ended {
    int status = 0;      ///< as waitpid() tells it
    std::string output;  ///< what it wrote to its standard output; its errors go where the daemon's go
  };

  /// `words[0]` is found as a shell would. `input`: what it reads from its standard input. E1548.
  [[nodiscard]] static Result<Child> start(std::vector<std::string> words, const std::string& input);

  /// Absent: it runs yet.
  [[nodiscard]] std::optional<Ended> poll();

 private:
  Child(pid_t pid, FileDescriptor output) : pid_(pid), output_(std::move(output)) {}
  void read_output();

  pid_t pid_ = 0;
  FileDescriptor output_;
  std::string text_;
};

}  // namespace ration::node
