// A small JSON file of the daemon's state. Used by limits, tenants, schedules, claims, folders and the queue; each
// reads its file once, at the start. Promises: no file hangs or ends the daemon, whatever lies at its path; what cannot
// be used is kept beside it, and somebody is told; whoever reads one finds the old content or the new one, whenever the
// writer dies.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.hpp"

namespace ration::node {

class StateFile {
 public:
  /// Empty: nothing is kept, and nothing is there.
  explicit StateFile(std::string path) : path_(std::move(path)) {}

  /// Hands what is in the file to `take`, which throws a std::exception where it makes no sense, having changed nothing
  /// that outlives it. A damaged file is renamed to PATH.damaged-TIME. `lost`: what is not known then, and what to do.
  void read(const std::string& lost, const std::function<void(const nlohmann::json& document)>& take);
  /// What to tell people of a damaged file; empty: it was none.
  [[nodiscard]] const std::string& damage() const noexcept { return damage_; }

  /// Does nothing where that was written last. E1531.
  [[nodiscard]] Result<void> write(const nlohmann::json& document);

 private:
  std::string path_, damage_, written_;
};

}  // namespace ration::node
