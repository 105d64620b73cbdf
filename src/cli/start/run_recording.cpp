#include "cli/start/run_recording.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/command.hpp"
#include "base/printable.hpp"
#include "cli/start/workload_start.hpp"
#include "guard/recorder/ticks.hpp"
#include "trace/packed_file.hpp"

namespace ration::cli {
namespace {

/// Formats a count with a comma between thousands: `31,204`.
std::string with_commas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

void print_still_recorded(const std::string& next) {
  fmt::print(stderr, "ration: processes of the workload are still running and being recorded · next: {}\n", next);
}

/// Returns a fix, in words, for a recording's file that could not be made after the program had ended.
std::string later(const Session& session, const std::string& file) {
  return fmt::format("Free some space there, then: {}; the parts of the recording are kept",
                     session.hint(command({"record", "-o", file})));
}

/// Makes the recording's file from its parts, removes the parts, and prints what was recorded. If `is_quiet`, prints
/// only if events were lost.
Result<void> pack(const Session& session, const std::string& file, const std::string& next, bool is_quiet) {
  RATION_TRY(const auto parts, trace::open_parts(file));
  const bool is_empty = std::none_of(parts->header().processes.begin(), parts->header().processes.end(),
                                     [](const auto& each) { return each.pid != 0; });
  if (std::error_code error; is_empty && std::filesystem::exists(file, error)) {
    if (!is_quiet)
      fmt::print(stderr, "ration: nothing was recorded, because the program used no GPU; {} keeps the earlier run\n",
                 printable(file));
    trace::remove_parts(file);
    return {};
  }
  const auto packed = trace::write_packed(file, *parts);
  if (!packed) return fail(packed.error().id, packed.error().what, later(session, file));
  const trace::Header& header = parts->header();
  const auto processes =
      std::count_if(header.processes.begin(), header.processes.end(), [](const auto& each) { return each.pid != 0; });
  if (header.lacks_ranges)
    fmt::print(stderr,
               "ration: NVTX ranges are not recorded: {} names another library, which gets these ranges instead\n",
               guard::kNvtxVariable);
  if (!is_quiet || header.lost != 0)
    fmt::print(stderr, "ration: {} · {} events of {} process{} · {} · {} lost{} · next: {}\n", printable(file),
               with_commas(packed->events), processes, processes == 1 ? "" : "es", session.size(Bytes{packed->bytes}),
               with_commas(header.lost), header.lost != 0 ? " (" + trace::why_lost(file) + ")" : "", next);
  trace::remove_parts(file);
  return {};
}

}  // namespace

Result<void> RunRecording::check(const std::string& file) {
  RATION_TRY(trace::check_place(file));
  std::error_code error;
  const std::string path = std::filesystem::absolute(file, error).string();
  if (trace::is_recorded_now(path))
    return fail("E1815", fmt::format("another run is being recorded to {} now.", path),
                "Use a separate file for each run.", 125);
  return {};
}

Result<std::unique_ptr<RunRecording>> RunRecording::begin(const RunOptions& options, const book::Store& store,
                                                          const std::string& workload, const admission::Plan& plan) {
  std::error_code error;
  const std::string path = std::filesystem::absolute(options.record, error).string();
  if (options.is_policy_recording) {
    const mode_t before = ::umask(0077);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    ::umask(before);
  }
  trace::RunNote note;
  note.workload = workload;
  note.command = options.program;
  note.folder = std::filesystem::current_path(error).string();
  note.deep = options.request.deep;
  note.began = guard::anchor_now();
  for (const auto& account : plan.accounts) {
    trace::Device device{account.device.uuid, account.device.name, account.device.total, {}};
    if (account.limit < kUnlimited) device.limit = account.limit;
    note.devices.push_back(std::move(device));
  }
  RATION_TRY(const auto shim, preloadable_folder(store, "shim"));
  RATION_TRY(auto lock, trace::make_parts(path, note));
  // If the variable names a tool already, the tool stays (guard/hooks/nvtx.cpp).
  if (const char* tool = std::getenv(guard::kNvtxVariable); tool == nullptr || *tool == '\0')
    ::setenv(guard::kNvtxVariable, (shim + "/" + guard::kNvtxLibrary).c_str(), 1);
  ::setenv("RATION_RECORD", (path + trace::kPartsEnding).c_str(), 1);
  if (!options.record_sites.empty()) ::setenv("RATION_RECORD_SITES", options.record_sites.c_str(), 1);
  std::unique_ptr<RunRecording> recording(new RunRecording(
      path, options.summary == "never" || options.is_policy_recording, std::move(note), std::move(lock)));
  recording->watch_.emplace(path + trace::kPartsEnding);
  return recording;
}

void RunRecording::program_ended(int pid, int exit_code) {
  watch_.reset();
  note_.ended = guard::anchor_now();
  note_.main_pid = pid;
  note_.exit_code = exit_code;
}

void RunRecording::finish(const Session& session, bool left_running) {
  const std::string next = session.hint(command({"inspect", file_}));
  if (left_running && is_quiet_) return;
  if (left_running) return print_still_recorded(next);
  const auto finished = [&]() -> Result<void> {
    if (const auto noted = trace::note_end(file_, note_); !noted)
      return fail(noted.error().id, noted.error().what, later(session, file_));
    return pack(session, file_, next, is_quiet_);
  }();
  if (!finished) session.print_finding(finished.error().id, finished.error().what, finished.error().fix);
}

void RunRecording::drop() { trace::remove_parts(file_); }

Result<int> pack_recording(const Session& session, const std::string& file) {
  RATION_TRY(trace::check_place(file));
  const std::string next = session.hint(command({"inspect", file}));
  if (trace::is_recorded_now(file)) {
    print_still_recorded(next);
    return 0;
  }
  RATION_TRY(const auto lock, trace::take_parts(file));
  RATION_TRY(pack(session, file, next, false));
  return 0;
}

}  // namespace ration::cli
