#include "cli/verbs/whatif_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/command.hpp"
#include "cli/start/launch.hpp"
#include "trace/open_recording.hpp"

namespace ration::cli {
namespace {

/// A folder of its own for the run: its books, its simulated GPUs and its recording. Removed at the end.
class Folder {
 public:
  /// Makes the folder. Leaves the path empty if there is no room, or TMPDIR names no folder.
  Folder() {
    std::error_code error;
    const auto place = std::filesystem::temp_directory_path(error);
    path_ = place.string() + "/ration-whatif-XXXXXX";  // what mkdtemp() replaces
    if (error || ::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Returns the recorded GPUs as --sim takes them, each with the size of a context on it.
std::string recorded_gpus(const trace::Recording& recording) {
  const auto& devices = recording.header().devices;
  std::vector<Bytes> contexts(devices.size());
  recording.read([&](const trace::Event& event) {
    if (event.kind == trace::Kind::kContextMade && event.device < contexts.size() && event.charged > 0)
      contexts[event.device] = std::max(contexts[event.device], Bytes{static_cast<std::uint64_t>(event.charged)});
    return true;
  });
  std::string text;
  for (std::size_t at = 0; at < devices.size(); ++at) {
    if (devices[at].total == Bytes{0}) continue;
    text += fmt::format("{}{}:{}B", text.empty() ? "" : ",", devices[at].name, devices[at].total.count());
    if (contexts[at] > Bytes{0}) text += fmt::format(":context={}B", contexts[at].count());
  }
  return text;
}

}  // namespace

Result<RealRun> run_really(const Session& session, const WhatIfOptions& options, const trace::Recording& recording) {
  const trace::Header& header = recording.header();
  RealRun result;
  result.words = options.program.empty() ? header.command : options.program;
  if (result.words.empty())
    return fail("E1817", "the recording does not say which program was recorded.",
                "ration whatif FILE --limit 4GiB --run -- python train.py", 2);
  result.gpus = session.simulated ? session.context.simulated : recorded_gpus(recording);
  if (result.gpus.empty())
    return fail("E1817", "the recording does not say which GPU it was made on.",
                "ration whatif FILE --limit 4GiB --run --sim=T4", 2);
  const std::string place = options.program.empty() ? header.folder : std::string(".");
  if (::access(place.c_str(), X_OK) != 0)
    return fail("E1817", fmt::format("the program was recorded in {}, which does not exist here.", place),
                "ration whatif FILE --limit 4GiB --run -- python train.py", 2);
  const Folder folder;
  if (folder.path().empty())
    return fail("E1817", "there is no room for temporary files.", "export TMPDIR=/a/folder", 2);
  const std::string file = folder.path() + "/run.rec";
  // Runs on an empty simulated GPU, and without a daemon, which could change the limit.
  std::vector<std::string> line{"/bin/sh",
                                "-c",
                                "cd \"$0\" && exec env -u RATION_SOCKET -u RATION_BOOK \"$@\" >&2",
                                place,
                                "RATION_SIM_DIR=" + folder.path(),
                                "RATION_RUNTIME_DIR=" + folder.path(),
                                companion("ration"),
                                "run",
                                "--sim=" + result.gpus,
                                "--summary=never",
                                "--record=" + file};
  if (!options.limit.empty()) line.insert(line.end(), {"--limit", options.limit});
  line.emplace_back("--");
  line.insert(line.end(), result.words.begin(), result.words.end());
  fmt::print(stderr, "ration: runs {} on {}\n", shown_command(result.words), printable(result.gpus));
  result.exit_code = launch(line).exit_code;
  result.passed = result.exit_code == 0;
  const auto ran = trace::open_recording(file);
  if (!ran) {
    std::vector<std::string> again{"ration", "run", "--sim=" + result.gpus};
    if (!options.limit.empty()) again.insert(again.end(), {"--limit", options.limit});
    again.emplace_back("--");
    again.insert(again.end(), result.words.begin(), result.words.end());
    return fail("E1817", fmt::format("the program did not start under that limit ({}).", result.exit_code),
                shown_command(again) + "   says why", 2);
  }
  result.devices = trace::add_up(**ran, std::nullopt).devices;
  return result;
}

}  // namespace ration::cli
