#include "trace/open_recording.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/whole_file.hpp"
#include "trace/history_csv.hpp"
#include "trace/import/importers.hpp"
#include "trace/packed_file.hpp"
#include "trace/parts.hpp"
#include "trace/run_note.hpp"

namespace ration::trace {
namespace {

/// The largest file that is imported. Such a file and the events that are made of it take less memory than a reader may
/// use.
constexpr std::size_t kMostOfImport = std::size_t{192} << 20;

/// Returns the importer for a file's format; nullptr if the file has no format of another program.
const Importer* importer_of_file(const std::string& path) {
  std::string beginning(4, '\0');
  const auto file = open_regular(path);
  const ssize_t size = file ? ::pread(file->get(), beginning.data(), beginning.size(), 0) : 0;
  return importer_of(std::string_view(beginning).substr(0, static_cast<std::size_t>(std::max<ssize_t>(0, size))));
}

}  // namespace

Result<std::unique_ptr<Recording>> open_recording(const std::string& path) {
  std::error_code error;
  // A recording is a folder of parts while its program runs, and after its `ration run` was killed.
  if (std::filesystem::is_directory(path + kPartsEnding, error)) return open_parts(path);
  if (is_packed(path)) {
    RATION_TRY(auto packed, open_packed(path));
    return std::unique_ptr<Recording>(std::move(packed));
  }
  if (std::filesystem::is_regular_file(path, error) && std::filesystem::file_size(path, error) == 0)
    return fail("E1811", path + " is empty.", "ration run --record train.rec -- PROGRAM");
  if (const Importer* importer = importer_of_file(path)) {
    auto content = read_whole(path, kMostOfImport);
    if (!content)
      return fail("E1811", fmt::format("{} cannot be read: {}.", path, std::string(content.error())),
                  "Check the path.");
    return importer->read(path, std::move(*content));
  }
  return read_history_csv(path);
}

}  // namespace ration::trace
