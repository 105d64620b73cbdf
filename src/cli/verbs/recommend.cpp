// `ration recommend`: suggests a limit for a workload from past runs in the daemon's history or in recordings.
#include "history/recommend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/command.hpp"
#include "cli/session/node_client.hpp"
#include "cli/verbs/verbs.hpp"
#include "history/integrator.hpp"
#include "trace/open_recording.hpp"
#include "trace/run_note.hpp"
#include "trace/whatif/charges.hpp"

namespace ration::cli {
namespace {

using history::TimeMs;

constexpr std::int64_t kNsOfMs = 1'000'000;

/// Returns true if the word names a file, or has a recording's ending: no workload is called train.rec.
bool is_recording(const std::string& word) {
  std::error_code error;
  return std::filesystem::path(word).extension() == ".rec" || std::filesystem::is_regular_file(word, error) ||
         std::filesystem::is_directory(word + trace::kPartsEnding, error);
}

/// Adds to each level of memory on one device the time for which the run held that much.
void add_levels(const trace::Recording& recording, std::size_t device, std::map<std::int64_t, TimeMs>& levels) {
  std::map<std::int64_t, std::int64_t> times;  // nanoseconds, by level
  std::int64_t held = 0, since = 0;
  recording.read([&](const trace::Event& event) {
    if (event.device != device || event.account == trace::Account::kPinnedHost || event.charged == 0) return true;
    times[held / history::kLevelStep] += event.time - since;
    since = event.time;
    held = std::max<std::int64_t>(held + event.charged, 0);
    return true;
  });
  for (const auto& [level, time] : times) levels[level] += time / kNsOfMs;
}

/// The GPU of the runs, and the recording that names the GPU.
struct RecordedGpu {
  trace::Device device;
  std::string path;
};

std::string described(const trace::Device& device) {
  return fmt::format("{} of {}", device.name.empty() ? "a GPU" : device.name, format_size(device.total));
}

/// Fails with E1812 if other runs were recorded on another model of GPU, where contexts and libraries take other
/// amounts.
Result<void> agree_on_gpu(const trace::Device& device, const std::string& path, std::optional<RecordedGpu>& gpu) {
  if (device.total == Bytes{0}) return {};  // the size is not known
  if (!gpu) gpu = {device, path};
  const bool one_name = device.name.empty() || gpu->device.name.empty() || device.name == gpu->device.name;
  if (one_name && device.total == gpu->device.total) {
    if (gpu->device.name.empty()) gpu->device.name = device.name;
    return {};
  }
  return fail("E1812",
              fmt::format("{} was recorded on {} and {} on {}: the memory that a run needs depends on the model of "
                          "the GPU.",
                          gpu->path, described(gpu->device), path, described(device)),
              command({"recommend", path}) + "   and ask about each model separately", 2);
}

/// Adds a recorded run. Fails with E1812 if the recording does not show what the run needed, or if the run was on
/// another model of GPU than the earlier runs.
Result<void> add_run(const trace::Recording& recording, const std::string& path, history::Past& past,
                     std::optional<RecordedGpu>& gpu) {
  const trace::Header& header = recording.header();
  const trace::Charges charges = trace::add_up(recording, std::nullopt);
  const auto most = std::max_element(charges.devices.begin(), charges.devices.end(),
                                     [](const auto& a, const auto& b) { return a.peak < b.peak; });
  if (!header.booked || header.lost > 0 || most == charges.devices.end())
    return fail("E1812",
                fmt::format("{} does not show how much memory the run needed{}.", path,
                            most == charges.devices.end() ? "" : ": " + trace::judge(header, *most).reason),
                command({"whatif", path}), 2);
  const auto index = static_cast<std::size_t>(most - charges.devices.begin());
  const trace::Device& device = header.devices[index];
  RATION_TRY(agree_on_gpu(device, path, gpu));
  history::RecordedRun run;
  run.first = header.began / kNsOfMs;
  run.last = run.first + charges.circumstances.length / kNsOfMs;
  run.peak = most->peak;
  run.capacity = device.total;
  run.limited = device.limit.value_or(device.total);
  run.denials = static_cast<std::int64_t>(most->denials);
  if (const auto& denied = most->greatest_recorded) {
    run.denied.known = run.denials;
    if (denied->need() > device.total)
      run.denied.impossible = denied->need();
    else
      run.denied.held = denied->held, run.denied.requested = denied->requested;
  }
  if (std::all_of(past.runs.begin(), past.runs.end(), [&](const auto& each) { return each.last <= run.last; }))
    past.name = header.workload;
  past.runs.push_back(run);
  add_levels(recording, index, past.levels);
  return {};
}

/// Recommends from recordings, as the daemon does from its history.
Result<history::Recommendation> recommend_from(const std::vector<std::string>& files, TimeMs now) {
  history::Past past;
  past.tenant = "default";
  std::optional<RecordedGpu> gpu;
  for (const std::string& path : files) {
    RATION_TRY(const auto recording, trace::open_recording(path));
    RATION_TRY(add_run(*recording, path, past, gpu));
  }
  history::RecommendQuestion question;
  question.workload = past.name;
  question.now = now;
  return history::recommend(question, past);
}

}  // namespace

Result<int> recommend(const Session& session, const std::vector<std::string>& words) {
  const bool from_recordings = words.size() > 1 || is_recording(words.front());
  nlohmann::json found, more = nlohmann::json::object();
  if (from_recordings) {
    const TimeMs now = history::now_ms();
    RATION_TRY(const auto recommendation, recommend_from(words, now));
    found = history::to_json(recommendation, now);
  } else {
    RATION_TRY(auto daemon, NodeClient::require(session));
    RATION_TRY(found, daemon.get("/api/v1/recommendations/" + percent_encoded(words.front())));
    more["source"] = "daemon";
  }
  if (session.format() == Format::kJson)
    session.print_json("recommend", found, more);
  else
    fmt::print("{}", session.shown(found.at("text").get<std::string>()));
  return 0;
}

}  // namespace ration::cli
