#include "trace/open_recording.hpp"

#include <filesystem>

#include "trace/history_csv.hpp"
#include "trace/packed_file.hpp"
#include "trace/parts.hpp"
#include "trace/run_note.hpp"

namespace ration::trace {

Result<std::unique_ptr<Recording>> open_recording(const std::string& path) {
  std::error_code error;
  // While it runs, and after its `ration run` was killed, a recording is a folder of parts.
  if (std::filesystem::is_directory(path + kPartsEnding, error)) return open_parts(path);
  if (is_packed(path)) {
    RATION_TRY(auto packed, open_packed(path));
    return std::unique_ptr<Recording>(std::move(packed));
  }
  if (std::filesystem::is_regular_file(path, error) && std::filesystem::file_size(path, error) == 0)
    return fail("E1811", path + " is empty.", "ration run --record train.rec -- PROGRAM");
  return read_history_csv(path);
}

}  // namespace ration::trace
