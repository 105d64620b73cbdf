// A child process of the probe that follows orders (`ration-workload obey`). A function of the exec family starts it,
// with an environment of its own. Used by the probe.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "driver/cuda_abi.hpp"

namespace ration::workload {

/// Changes to the child's environment relative to this process.
struct Altered {
  std::vector<const char*> dropped;
  std::vector<std::string> added;  ///< "NAME=value"
};

/// A function that starts the program. It replaces this process, or returns if it fails.
using Start = void(const char* program, char* const* words, char* const* environment);
void execute(const char* program, char* const* words, char* const* environment);

class Child {
 public:
  /// Starts the child. Returns false if it does not answer.
  bool start(Start* way, const Altered& altered);
  [[nodiscard]] bool is_running() const { return child_ > 0; }
  /// Returns the driver's answer to the child, or an error if the child is gone.
  cuda::CUresult ask(const std::string& order);
  /// Returns the socket over which the child sends the memory that it exports.
  [[nodiscard]] int parcels() const { return parcels_; }
  void stop();

 private:
  pid_t child_ = -1;
  int orders_ = -1, parcels_ = -1;
};

}  // namespace ration::workload
