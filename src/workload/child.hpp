// A child of the probe that does what it is told (`ration-workload obey`), started in a way of the exec family's and
// with an environment of its own. Used by the probe.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "driver/cuda_abi.hpp"

namespace ration::workload {

/// What the child is to find in its environment, instead of what this process has.
struct Altered {
  std::vector<const char*> dropped;
  std::vector<std::string> added;  ///< "NAME=value"
};

/// Starts the program, which ends as it does or replaces this process.
using Start = void(const char* program, char* const* words, char* const* environment);
void execute(const char* program, char* const* words, char* const* environment);

class Child {
 public:
  /// False: it does not answer.
  bool start(Start* way, const Altered& altered);
  [[nodiscard]] bool is_running() const { return child_ > 0; }
  /// What the driver answered it, or an error of its own where it is gone.
  cuda::CUresult ask(const std::string& order);
  /// Over which it sends what it exports.
  [[nodiscard]] int parcels() const { return parcels_; }
  void stop();

 private:
  pid_t child_ = -1;
  int orders_ = -1, parcels_ = -1;
};

}  // namespace ration::workload
