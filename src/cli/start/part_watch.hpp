// The ends of processes that record. A process that was killed, or left by _exit(), says nothing itself, so `ration
// run` waits for each and notes the time in its part.
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
  /// Notes the ends that are due, and stops.
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
  /// Notes the end of processes that are gone, and waits for at most `timeout_ms` until there is one, or a new part.
  void note_ends(int timeout_ms);

  const std::string folder_;
  FileDescriptor changes_, stop_;   // inotify and eventfd
  std::map<int, Watched> watched_;  // by pid
  std::thread thread_;
};

}  // namespace ration::cli
