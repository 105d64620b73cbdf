// `ration import`: makes a recording from a file that another program wrote about its memory.
#include <fmt/format.h>

#include <filesystem>

#include "base/command.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"
#include "cli/verbs/verbs.hpp"
#include "trace/open_recording.hpp"
#include "trace/packed_file.hpp"

namespace ration::cli {

Result<int> import_recording(const Session& session, const ImportOptions& options) {
  namespace fs = std::filesystem;
  RATION_TRY(const auto recording, trace::open_recording(options.file));
  const std::string path =
      options.out.empty() ? fs::path(options.file).replace_extension(".rec").string() : options.out;
  std::error_code error;
  if (fs::equivalent(path, options.file, error))
    return fail("E1405", fmt::format("{} is the file to import, so it cannot also be the output.", path),
                "--output another.rec", 2);
  // history.csv is often an export of history.rec, which has more.
  if (options.out.empty() && fs::exists(path, error))
    return fail("E1405", fmt::format("{} exists already.", path),
                command({"import", options.file, "-o", path}) + "   replaces it", 2);
  RATION_TRY(const auto packed, trace::write_packed(path, *recording));
  fmt::print("{} · {} · {} · next: {}\n", printable(path), counted(packed.events, "event"),
             session.size(Bytes{packed.bytes}), session.hint(command({"inspect", path})));
  return 0;
}

}  // namespace ration::cli
