// The recordings that the daemon shows: files of one folder of its state. Promises: neither a name nor a link leads out
// of the folder; an operator can open every recording, and any other viewer only recordings of the viewer's own user.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "node/snapshot/snapshot_json.hpp"
#include "trace/packed_file.hpp"

namespace ration::node {

class RecordingFolder {
 public:
  /// Shows no recordings if `state_folder` is empty.
  explicit RecordingFolder(const std::string& state_folder)
      : path_(state_folder.empty() ? "" : state_folder + "/recordings") {}

  struct Entry {
    std::string name;
    std::uint64_t bytes = 0;
    std::int64_t modified = 0;  ///< nanoseconds since 1970
    uid_t owner = 0;
  };
  /// Returns the recordings that the viewer may see, the newest first, at most kMostListed.
  [[nodiscard]] std::vector<Entry> list(const Viewer& viewer) const;
  static constexpr std::size_t kMostListed = 1000;

  /// Opens a recording. Fails with E1830 if the viewer may see no recording of that name, with E1811 if the recording
  /// is incomplete, and with E1816 if another version of ration made it.
  [[nodiscard]] Result<std::unique_ptr<trace::PackedRecording>> open(const std::string& name,
                                                                     const Viewer& viewer) const;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace ration::node
