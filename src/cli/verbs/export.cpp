// `ration export`: writes a recording in the format of another program.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/command.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"
#include "cli/verbs/verbs.hpp"
#include "machine/user_names.hpp"
#include "trace/export/exporter.hpp"
#include "trace/open_recording.hpp"

namespace ration::cli {
namespace {

namespace fs = std::filesystem;
constexpr const char* kStandardOutput = "-";

/// Returns the path to write to. The default is the recording's path with the ending of the format. In a folder, files
/// for XProf go to the subfolder where XProf looks for them.
fs::path target(const ExportOptions& options, const trace::Exporter& exporter) {
  const fs::path recording = options.file;
  if (options.out.empty()) return fs::path(recording).replace_extension(exporter.ending);
  std::error_code error;
  if (!options.out.ends_with('/') && !fs::is_directory(options.out, error)) return options.out;
  const fs::path folder = options.out, name = recording.stem();
  if (exporter.write == trace::write_xspace)
    return folder / "plugins/profile" / name / (machine::host_name() + exporter.ending);
  return folder / (name.string() + exporter.ending);
}

tl::unexpected<Error> not_written(const fs::path& path, int problem) {
  return fail("E1405", fmt::format("{} cannot be written: {}.", path.string(), std::strerror(problem)),
              "--output /a/folder/of/yours/", 1);
}

}  // namespace

Result<int> export_recording(const Session& session, const ExportOptions& options) {
  const trace::Exporter* exporter = trace::exporter_of(options.format);
  RATION_TRY(const auto recording, trace::open_recording(options.file));
  if (options.out == kStandardOutput) {
    exporter->write(*recording, std::cout);
    return 0;
  }
  const fs::path path = target(options, *exporter);
  std::error_code error;
  if (fs::equivalent(path, options.file, error))
    return fail("E1405", fmt::format("{} is the recording itself.", path.string()), "--output another/file", 2);
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (out) exporter->write(*recording, out);
  if (!out.flush()) {
    const int problem = errno != 0 ? errno : EIO;
    if (fs::is_regular_file(path, error)) fs::remove(path, error);  // leaves no unfinished export
    return not_written(path, problem);
  }
  fmt::print("{} · {} · for {}\n", printable(path.string()), session.size(Bytes{fs::file_size(path, error)}),
             exporter->opened_by);
  return 0;
}

}  // namespace ration::cli
