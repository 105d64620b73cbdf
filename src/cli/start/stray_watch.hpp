// Processes of a workload that hold GPU memory without the guard: a child that dropped the preload, a second dynamic
// loader. They cannot be seen beforehand, so `ration run` looks for them while its program runs, with or without a
// daemon. What comes and goes between two looks is not seen.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "base/bytes.hpp"
#include "cli/session/session.hpp"

namespace ration::cli {

struct Stray {
  std::string command;
  Bytes most;  ///< that it was seen to hold on one GPU; 0: the driver does not say
};

class StrayWatch {
 public:
  StrayWatch(const Session& session, std::string workload);
  ~StrayWatch();
  StrayWatch(const StrayWatch&) = delete;
  StrayWatch& operator=(const StrayWatch&) = delete;

  /// Looks at once a last time, where the program ran for long enough to be looked at, or `left_running` processes that
  /// may hold memory. Returns all that were seen, by pid.
  [[nodiscard]] std::map<std::int32_t, Stray> finish(bool left_running);

 private:
  void look();
  void watch();

  const Session& session_;
  std::string workload_;
  std::map<std::int32_t, Stray> seen_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  bool has_looked_ = false;
  std::thread thread_;
};

}  // namespace ration::cli
