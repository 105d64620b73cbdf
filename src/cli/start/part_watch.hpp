// The ends of processes that record. A process that was killed, or that called _exit(), cannot note its own end, so
// `ration run` waits for each process and notes the time of the end in the part of the process.
#pragma once

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/file.hpp"

namespace ration::cli {

class PartWatch {
 public:
  /// Watches the processes that make parts in `folder`. Does nothing where the system cannot tell (before Linux 5.3).
  explicit PartWatch(std::string folder);
  /// Notes the ends that are not noted yet, and stops.
  ~PartWatch();
  PartWatch(const PartWatch&) = delete;
  PartWatch& operator=(const PartWatch&) = delete;

 private:
  struct Watched {
    FileDescriptor process;
    std::vector<std::string> parts;
  };

  void serve();
  void see_new_parts();
  void watch(const std::string& part);
  /// Waits for at most `timeout_ms` milliseconds until a process ends or a new part appears, and notes the ends of
  /// processes.
  void note_ends(int timeout_ms);

  const std::string folder_;
  FileDescriptor changes_, stop_;   // inotify and eventfd
  std::map<int, Watched> watched_;  // by pid
  std::thread thread_;
};

}  // namespace ration::cli
