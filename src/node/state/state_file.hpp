// One JSON file of the daemon's state, read once at the start.
// Promises: nothing that lies at the path can hang or end the daemon; an unusable file is renamed, kept and reported; a
// reader sees the old content or the new, even if the writer dies.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.hpp"

namespace ration::node {

class StateFile {
 public:
  /// Names the file; an empty path keeps nothing.
  explicit StateFile(std::string path) : path_(std::move(path)) {}

  /// Passes the content to `take`, which throws a std::exception for an invalid document before it changes anything.
  /// Renames a damaged file to PATH.damaged-TIME. `consequence` is a sentence that says what is lost, and what to do.
  void read(const Message& consequence, const std::function<void(const nlohmann::json& document)>& take);
  /// Returns a report of a damaged file; empty if it was sound.
  [[nodiscard]] const Message& damage() const noexcept { return damage_; }

  /// Writes the document unless it equals the last written document. Fails with E1531.
  [[nodiscard]] Result<void> write(const nlohmann::json& document);

 private:
  std::string path_, written_;
  Message damage_;
};

}  // namespace ration::node
