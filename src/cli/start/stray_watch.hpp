// Processes of a workload that hold GPU memory without the guard, such as a child that dropped the preload. They cannot
// be foreseen, so `ration run` looks for them while its program runs, with or without a daemon. A process that comes
// and goes between two queries of the driver is missed.
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
  Bytes most;  ///< most bytes seen on one GPU; 0 if the driver does not report it
};

class StrayWatch {
 public:
  StrayWatch(const Session& session, std::string workload);
  ~StrayWatch();
  StrayWatch(const StrayWatch&) = delete;
  StrayWatch& operator=(const StrayWatch&) = delete;

  /// Returns all such processes by pid. First queries the driver a last time if it was queried before, or if the
  /// program left processes running.
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
