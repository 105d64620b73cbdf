#include "cli/verbs/whatif_fits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "admission/plan.hpp"
#include "admission/promises.hpp"
#include "base/printable.hpp"
#include "config/values.hpp"
#include "trace/open_recording.hpp"
#include "trace/whatif/answer.hpp"
#include "trace/whatif/fitting.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kBarColumns = 40;
constexpr const char* kPatterns[] = {"█", "▓", "▒", "░"};
constexpr std::size_t kMostPlaces = 200'000;  // bound for programs times GPUs; so many take a second

Result<std::vector<trace::NamedGpu>> gpus_of(const Session& session, const std::vector<std::string>& typed) {
  if (!typed.empty()) return trace::parse_gpus(fmt::format("{}", fmt::join(typed, ",")));
  RATION_TRY(const auto store, session.store());
  RATION_TRY(const auto machine, session.machine());
  std::vector<trace::NamedGpu> gpus;
  for (const auto& device : machine.devices) {
    const Bytes promised = admission::promises_on(device, store).total();
    gpus.push_back({device.name, device.total - std::min(device.total, promised)});
  }
  return gpus;
}

/// Returns a recorded program. Its size is the smallest limit that it needs on the device where it needs most.
Result<trace::SizedProgram> recorded(const std::string& path) {
  RATION_TRY(const auto recording, trace::open_recording(path));
  RATION_TRY(const auto answers, trace::answer(*recording, {}));
  trace::SizedProgram program;
  program.name = printable(std::filesystem::path(path).stem());
  for (const trace::Answer& row : answers.rows) program.guarantee = std::max(program.guarantee, *row.smallest);
  program.guarantee = program.limit = round_up(program.guarantee, kGranule);
  return program;
}

Result<std::vector<trace::SizedProgram>> programs_of(const std::vector<std::string>& words,
                                                     const std::vector<trace::NamedGpu>& gpus) {
  std::vector<trace::SizedProgram> programs;
  std::size_t instances = 0;
  for (const std::string& word : words) {
    RATION_TRY(auto program, is_size(word) ? trace::parse_program(word, gpus) : recorded(word));
    if (is_size(word) && !config::is_name(program.name)) return config::not_a_name(program.name);
    const auto same = [&](const trace::SizedProgram& other) { return other.name == program.name; };
    if (std::any_of(programs.begin(), programs.end(), same))
      return fail("E1307", fmt::format("{} is given twice.", program.name),
                  fmt::format("ration whatif {}=4GiB*6   asks about several programs of the same size", program.name),
                  2);
    instances += static_cast<std::size_t>(program.count);
    programs.push_back(std::move(program));
  }
  if (instances * gpus.size() > kMostPlaces)
    return fail("E1307", fmt::format("{} programs on {} GPUs are too many to place.", instances, gpus.size()),
                "ask about fewer programs at once", 2);
  return programs;
}

std::string names_of(const Session& session, const std::vector<trace::SizedProgram>& programs) {
  std::vector<std::string> texts;
  for (const auto& program : programs)
    texts.push_back(fmt::format("{}{} {}", program.name, program.count == 1 ? "" : fmt::format("×{}", program.count),
                                session.size(program.guarantee * static_cast<std::uint64_t>(program.count))));
  return texts.empty() ? "nothing" : fmt::format("{}", fmt::join(texts, " · "));
}

/// Returns the bar of a GPU: a pattern for each program, a mark where the guarantees end, dots for spare memory.
std::string bar(const trace::FittedGpu& gpu, std::map<std::string, const char*>& patterns) {
  const auto columns = [&](Bytes bytes) {
    const double share = static_cast<double>(bytes.count()) / static_cast<double>(gpu.gpu.usable.count());
    return static_cast<std::size_t>(std::lround(share * static_cast<double>(kBarColumns)));
  };
  std::string text;
  Bytes sum;
  std::size_t at = 0;
  for (const auto& program : gpu.programs) {
    const auto pattern = patterns.try_emplace(program.name, kPatterns[patterns.size() % std::size(kPatterns)]);
    sum += program.guarantee * static_cast<std::uint64_t>(program.count);
    for (; at < columns(sum); ++at) text += pattern.first->second;
  }
  text += "┊";
  for (; at < kBarColumns; ++at) text += "·";
  return text;
}

void show(const Session& session, const trace::Fitting& fitting) {
  fmt::print("needs {} on {}  → {}\n", session.size(fitting.needed), session.size(fitting.available),
             fitting.fits ? "fits" : "does not fit");
  std::map<std::string, const char*> patterns;
  for (std::size_t gpu = 0; gpu < fitting.gpus.size(); ++gpu)
    fmt::print("  GPU {}  {}  {}   {} spare\n", gpu, bar(fitting.gpus[gpu], patterns),
               names_of(session, fitting.gpus[gpu].programs), session.size(fitting.gpus[gpu].spare));
  if (!fitting.fits) return;
  for (const auto& limit : fitting.unreachable)
    fmt::print("note  {} cannot reach its limit of {} beside the other programs on its GPU ({} at most).\n", limit.name,
               session.size(limit.limit), session.size(limit.reachable));
}

json to_json(const std::vector<trace::SizedProgram>& programs) {
  json rows = json::array();
  for (const auto& program : programs) {
    rows.push_back({{"name", program.name}, {"count", program.count}, {"guarantee_bytes", program.guarantee.count()}});
    if (program.limit < kUnlimited) rows.back()["limit_bytes"] = program.limit.count();
  }
  return rows;
}

json to_json(const trace::Fitting& fitting) {
  json gpus = json::array(), unreachable = json::array();
  for (const auto& gpu : fitting.gpus)
    gpus.push_back({{"gpu", gpus.size()},
                    {"name", gpu.gpu.name},
                    {"usable_bytes", gpu.gpu.usable.count()},
                    {"spare_bytes", gpu.spare.count()},
                    {"programs", to_json(gpu.programs)}});
  for (const auto& limit : fitting.unreachable)
    unreachable.push_back({{"name", limit.name}, {"gpu", limit.gpu}, {"reachable_bytes", limit.reachable.count()}});
  return {{"needed_bytes", fitting.needed.count()},
          {"available_bytes", fitting.available.count()},
          {"gpus", std::move(gpus)},
          {"left_over", to_json(fitting.left_over)},
          {"unreachable", std::move(unreachable)},
          {"more_gpus", fitting.more_gpus}};
}

}  // namespace

bool is_size(const std::string& word) {
  std::error_code error;
  return word.find('=') != std::string::npos && !std::filesystem::exists(word, error);
}

Result<int> whatif_fits(const Session& session, const std::vector<std::string>& programs,
                        const std::vector<std::string>& gpus) {
  RATION_TRY(const auto devices, gpus_of(session, gpus));
  RATION_TRY(const auto asked, programs_of(programs, devices));
  const trace::Fitting fitting = trace::fit(devices, asked);
  if (session.format() == Format::kJson) {
    session.print_json("whatif",
                       {{"fits", fitting.fits}, {"recordings", json::array()}, {"placement", to_json(fitting)}});
    return fitting.fits ? 0 : 4;
  }
  show(session, fitting);
  if (fitting.fits) return 0;
  Bytes largest;  // what is left on the GPU with the most room
  for (const auto& gpu : fitting.gpus) largest = std::max(largest, gpu.spare);
  const std::string left = names_of(session, fitting.left_over);
  return fail("E1306",
              fitting.needed > fitting.available
                  ? fmt::format("no room for {}: {} needed, {} available.", left, session.size(fitting.needed),
                                session.size(fitting.available))
                  : fmt::format("no GPU has room for {}: no GPU has more than {} left.", left, session.size(largest)),
              fitting.more_gpus > 0
                  ? fmt::format("Add GPUs like the largest one: {} would be enough.", fitting.more_gpus)
                  : "Use larger GPUs or fewer programs: no number of these GPUs is enough.",
              4);
}

}  // namespace ration::cli
