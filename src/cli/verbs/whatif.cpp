// `ration whatif`: answers from recordings what a program needs, and what it would have been denied under another
// limit.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/command.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/verbs/whatif_fits.hpp"
#include "cli/verbs/whatif_run.hpp"
#include "cli/verbs/whatif_together.hpp"
#include "trace/open_recording.hpp"
#include "trace/whatif/answer.hpp"
#include "trace/whatif/gpus.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

struct Opened {
  std::string path;
  std::unique_ptr<trace::Recording> recording;
  std::optional<Bytes> limit;
  trace::Answers answers;
  std::optional<RealRun> run;
};

/// Returns the limit in bytes. A share (`50%`) is a part of the smallest recorded device.
Result<std::optional<Bytes>> limit_of(const std::string& text, const trace::Header& header) {
  if (text.empty()) return std::nullopt;
  Bytes total;
  for (const trace::Device& device : header.devices)
    total = total == Bytes{0} ? device.total : std::min(total, device.total);
  if (total == Bytes{0} && (text.find('%') != std::string::npos || text.find("max") == 0))
    return fail("E1812", fmt::format("{}: this recording does not say how large its GPU was.", text),
                "ration whatif FILE --limit 4GiB", 2);
  RATION_TRY(const Bytes limit, parse_size(text, total, total));
  return limit;
}

/// Returns the allocators that were typed. If none was typed and the recording has tensors, returns all allocators.
Result<std::vector<trace::NamedAllocator>> allocators_of(const std::vector<std::string>& typed,
                                                         const trace::Header& header) {
  std::vector<trace::NamedAllocator> allocators;
  for (const std::string& text : typed.empty() && header.deep ? trace::allocator_names() : typed) {
    if (text == "none") continue;
    RATION_TRY(auto allocator, trace::find_allocator(text));
    allocators.push_back(std::move(allocator));
  }
  return allocators;
}

Result<Opened> open(const Session& session, const std::string& path, const WhatIfOptions& options) {
  Opened opened{path, {}, {}, {}, {}};
  RATION_TRY(opened.recording, trace::open_recording(path));
  const trace::Header& header = opened.recording->header();
  RATION_TRY(opened.limit, limit_of(options.limit, header));
  RATION_TRY(auto allocators, allocators_of(options.allocators, header));
  RATION_TRY(opened.answers, trace::answer(*opened.recording, {opened.limit, std::move(allocators)}));
  if (options.run) {
    RATION_TRY(opened.run, run_really(session, options, *opened.recording));
  }
  return opened;
}

json to_json(const trace::DeniedRequest& denied) {
  return {{"event", denied.event},
          {"seconds", seconds(denied.time)},
          {"requested_bytes", denied.requested.count()},
          {"charged_bytes", denied.charged.count()},
          {"held_bytes", denied.held.count()},
          {"process", denied.process}};
}

json to_json(const RealRun& run) {
  json gpus = json::array();
  for (const trace::DeviceCharges& device : run.devices) {
    json row{{"peak_bytes", device.peak.count()}, {"denials", device.denials}};
    if (device.first_recorded) row["first_denial"] = to_json(*device.first_recorded);
    gpus.push_back(std::move(row));
  }
  return {{"grade", trace::name_of(trace::Grade::kRun)},
          {"fits", run.passed},
          {"exit_code", run.exit_code},
          {"program", run.words},
          {"simulated", run.gpus},
          {"gpus", std::move(gpus)}};
}

json to_json(const Opened& opened) {
  const trace::Header& header = opened.recording->header();
  const trace::Circumstances& circumstances = opened.answers.circumstances;
  json rows = json::array();
  for (const trace::Answer& row : opened.answers.rows) {
    json entry{{"allocator", row.allocator},
               {"gpu", row.device},
               {"grade", trace::name_of(row.judgement.grade)},
               {"reason", row.judgement.reason},
               {"is_lower_bound", row.is_bound}};
    if (row.smallest) entry["smallest_limit_bytes"] = row.smallest->count();
    if (opened.limit) entry["fits"] = !row.denied;
    if (row.denied) entry["first_denial"] = to_json(*row.denied);
    rows.push_back(std::move(entry));
  }
  json answer{{"file", opened.path},
              {"workload", header.workload},
              {"events", circumstances.events},
              {"seconds", seconds(circumstances.length)},
              {"lost", header.lost},
              {"complete", header.complete},
              {"asked", circumstances.asked},
              {"denied", circumstances.denied},
              {"waited", circumstances.waited},
              {"doubts", trace::doubts(header, circumstances)},
              {"answers", std::move(rows)}};
  if (opened.limit) answer["limit_bytes"] = opened.limit->count();
  if (opened.run) answer["run"] = to_json(*opened.run);
  return answer;
}

std::string to_text(const Session& session, const trace::DeniedRequest& denied) {
  const Bytes wanted = denied.kind == trace::Kind::kContextMade ? denied.charged : std::max(denied.requested, Bytes{1});
  return fmt::format("denied at {}: {}{} on top of {}", moment(denied.time), session.size(wanted),
                     denied.kind == trace::Kind::kContextMade ? " of a context" : "", session.size(denied.held));
}

std::string outcome(const Session& session, const trace::Answer& row) {
  if (row.denied) return to_text(session, *row.denied);
  return row.is_bound ? "not denied, as far as known" : "fits";
}

/// Returns how the program itself ended: `ended with 1, denied at 4.2s: 512 MiB on top of 5.6 GiB`.
std::string outcome(const Session& session, const RealRun& run, const trace::DeviceCharges& device) {
  std::string text = run.passed ? "passed" : fmt::format("ended with {}", run.exit_code);
  if (device.first_recorded)
    text += fmt::format(", {}{}", to_text(session, *device.first_recorded),
                        device.denials > 1 ? fmt::format(", then {} more", device.denials - 1) : "");
  else if (!run.passed)
    text += ", and nothing was denied";
  return text;
}

void show(const Session& session, const Opened& opened, bool name_it) {
  if (name_it) fmt::print("{}\n", session.shown(opened.path));
  const bool several = opened.recording->header().devices.size() > 1;
  Table table({{"ALLOCATOR", "allocator"},
               {"GPU", "gpu", true, true},
               {"SMALLEST LIMIT", "smallest_limit", true},
               {opened.limit ? "UNDER " + session.size(*opened.limit) : "WITHOUT A LIMIT", "under", false, true},
               {"GRADE", "grade"}});
  for (const trace::Answer& row : opened.answers.rows) {
    const std::string smallest = !row.smallest  ? "-"
                                 : row.is_bound ? "at least " + session.size(*row.smallest)
                                                : session.limit_from(*row.smallest);
    table.add({row.allocator, several ? std::to_string(row.device) : "-", smallest,
               opened.limit ? outcome(session, row) : "-",
               fmt::format("{}{}{}", trace::name_of(row.judgement.grade), row.judgement.reason.empty() ? "" : ": ",
                           row.judgement.reason)});
  }
  for (std::size_t device = 0; opened.run && device < opened.run->devices.size(); ++device) {
    const trace::DeviceCharges& charges = opened.run->devices[device];
    table.add({"as run", several ? std::to_string(device) : "-", "-", outcome(session, *opened.run, charges),
               fmt::format("run: it held up to {}", session.size(charges.peak))});
  }
  table.print(Format::kText);
  if (opened.run) return;  // a real run leaves no doubt
  for (const std::string& doubt : trace::doubts(opened.recording->header(), opened.answers.circumstances))
    fmt::print("certain?  no: {}\n", doubt);
}

/// Prints the highest and the lowest need of several runs.
void show_spread(const Session& session, const std::vector<Opened>& all) {
  for (const trace::Answer& row : all.front().answers.rows) {
    std::vector<Bytes> sizes;
    for (const Opened& opened : all)
      for (const trace::Answer& other : opened.answers.rows)
        if (other.allocator == row.allocator && other.smallest) sizes.push_back(*other.smallest);
    if (row.device > 0 || sizes.empty()) continue;
    const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
    fmt::print("worst of {}   {}  {}  (best: {})\n", sizes.size(), row.allocator, session.limit_from(*most),
               session.limit_from(*least));
  }
}

/// Returns the answer about programs side by side, if `--with` or `--gpu` was given.
Result<std::optional<SideBySide>> ask_together(const Session& session, const WhatIfOptions& options,
                                               const std::vector<Opened>& all) {
  if (options.with.empty() && options.gpus.empty()) return std::nullopt;
  if (all.size() > 1)
    return fail("E1814", "--with and --gpu accept only one recording, but several were given.",
                "ration whatif FILE --with OTHER --gpu 12GiB", 2);
  std::optional<Bytes> size;
  if (!options.gpus.empty()) {
    RATION_TRY(const auto gpus, trace::parse_gpus(fmt::format("{}", fmt::join(options.gpus, ","))));
    if (gpus.size() > 1)
      return fail("E1814", "for a recording, --gpu accepts the size of one GPU, but several were given.", "--gpu 12GiB",
                  2);
    size = gpus.front().usable;
  }
  std::unique_ptr<trace::Recording> other;
  if (!options.with.empty()) {
    RATION_TRY(other, trace::open_recording(options.with));
  }
  return side_by_side(session, *all.front().recording, other.get(), size);
}

}  // namespace

Result<int> whatif(const Session& session, const WhatIfOptions& options) {
  if (std::any_of(options.recordings.begin(), options.recordings.end(), is_size)) {
    if (!options.with.empty() || !options.limit.empty() || options.run)
      return fail("E1814", "--with, --limit and --run accept recordings, not sizes.",
                  "ration whatif NAME=16GiB OTHER=4GiB*6 --gpu A100-40", 2);
    return whatif_fits(session, options.recordings, options.gpus);
  }
  if (!options.program.empty() && !options.run)
    return fail("E1814", "a program after -- needs --run.", "ration whatif FILE --limit 4GiB --run -- python train.py",
                2);
  std::vector<Opened> all;
  for (const std::string& path : options.recordings) {
    RATION_TRY(auto opened, open(session, path, options));
    all.push_back(std::move(opened));
  }
  RATION_TRY(const auto together, ask_together(session, options, all));
  bool fits = !together || together->fits;
  json recordings = json::array();
  for (const Opened& opened : all) {
    for (const trace::Answer& row : opened.answers.rows)
      if (row.allocator == opened.answers.rows.front().allocator && !opened.run) fits = fits && !row.denied;
    if (opened.run) fits = fits && opened.run->passed;
    if (session.format() == Format::kJson)
      recordings.push_back(to_json(opened));
    else
      show(session, opened, all.size() > 1);
  }
  if (session.format() == Format::kJson) {
    json data{{"fits", fits}, {"recordings", std::move(recordings)}};
    if (together) data["side_by_side"] = together->document;
    session.print_json("whatif", std::move(data));
  } else {
    if (all.size() > 1) show_spread(session, all);
    if (together) fmt::print("{}", together->text);
  }
  return fits ? 0 : 4;
}

}  // namespace ration::cli
