// `ration inspect`: shows what a recording tells about a program's memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "base/printable.hpp"
#include "base/strings.hpp"
#include "base/time.hpp"
#include "cli/verbs/verbs.hpp"
#include "cli/verbs/whatif_together.hpp"
#include "trace/difference.hpp"
#include "trace/inspection_json.hpp"
#include "trace/kinds.hpp"
#include "trace/open_recording.hpp"
#include "trace/view/html.hpp"

namespace ration::cli {
namespace {

using trace::Group;
using trace::Header;
using trace::Held;
using trace::Inspection;
using trace::Place;

constexpr std::size_t kShownGroups = 5, kShownDenials = 10, kShownThreads = 3;

Bytes bytes_of(std::int64_t bytes) { return Bytes{static_cast<std::uint64_t>(std::max<std::int64_t>(0, bytes))}; }

std::string name_of(const Place& place, const Header& header) {
  if (place.is_host) return "pinned host memory";
  const std::string model = printable(header.devices[place.device].name);
  return fmt::format("GPU {}{}", place.device, model.empty() ? "" : " " + model);
}

std::string process_name(std::uint32_t process, const Header& header) {
  if (process >= header.processes.size()) return "?";
  const trace::Process& of = header.processes[process];
  const std::string command = printable(of.command.substr(0, of.command.find(' ')));
  const std::string name = command.substr(command.rfind('/') + 1);
  return of.pid == 0 ? name : fmt::format("{} (pid {})", name, of.pid);
}

/// Shortens a call of a site. Python's `NAME (FOLDER/FILE:LINE)` loses the folder; a native `NAME (MODULE+OFFSET)` is
/// cut to its name.
std::string short_call(std::string_view call) {
  const std::size_t open = call.rfind(" (");
  if (open == std::string_view::npos) return printable(std::string(call));
  const std::string_view function = call.substr(0, open);
  std::string_view place = call.substr(open + 2);
  place = place.substr(place.rfind('/') + 1);
  const bool has_line = place.find(':') != std::string_view::npos && place.ends_with(')');
  return printable(has_line ? fmt::format("{} ({}", function, place) : std::string(function));
}

/// Returns the innermost functions of a site. Leaves out functions of CUDA's runtime, and repetitions by recursion.
std::string site_name(std::uint32_t site, const Header& header) {
  constexpr std::size_t kShown = 3;
  if (site == 0 || site >= header.sites.size()) return "";
  std::vector<std::string> calls;
  for (const std::string_view call : ration::split(header.sites[site], '\n')) {
    std::string function = short_call(call);
    if (call.find("(libcudart.so") != std::string_view::npos || (!calls.empty() && calls.back() == function)) continue;
    calls.push_back(std::move(function));
    if (calls.size() == kShown) break;
  }
  return fmt::format("{}", fmt::join(calls, " ← "));
}

// --------------------------------------------------------------------------------------------------------------- text

std::string line_of(const std::vector<std::int64_t>& timeline) {
  constexpr const char* kLevels[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::int64_t most = timeline.empty() ? 0 : *std::max_element(timeline.begin(), timeline.end());
  std::string line;
  for (const std::int64_t bytes : timeline) line += kLevels[most <= 0 || bytes <= 0 ? 0 : 1 + bytes * 7 / most];
  return line;
}

std::string described(const Session& session, const Group& group, const Header& header) {
  std::string text =
      fmt::format("{:>10}  {} × {}", session.size(Bytes{group.total()}), group.count, session.size(Bytes{group.bytes}));
  if (const std::string site = site_name(group.site, header); !site.empty()) text += " · " + site;
  if (header.processes.size() > 1) text += " · " + process_name(group.process, header);
  if (group.count > 2 && group.marks > 2)
    text += fmt::format("  ← more with each mark ({} spans): looks like a leak", group.marks);
  return text;
}

/// Returns the ranges of a thread: `epoch 3 › forward`.
std::string described(const trace::Inside& inside, const Header& header) {
  std::string text;
  for (const std::uint32_t site : inside.sites) {
    const std::string name = site < header.sites.size() ? printable(header.sites[site]) : "";
    text += fmt::format("{}{}", text.empty() ? "" : " › ", name.empty() ? "(without a name)" : name);
  }
  if (header.processes.size() > 1) text += " · " + process_name(inside.process, header);
  return text;
}

void print_held(const Session& session, const Held& held, const Header& header, bool at_peak) {
  fmt::print("{}\n", name_of(held.place, header));
  fmt::print("  {} {} at {}{}\n", at_peak ? "peak" : "held", session.size(bytes_of(held.charged)), moment(held.time),
             held.mark.empty() ? "" : fmt::format(" · after mark \"{}\"", printable(held.mark)));
  for (std::size_t at = 0; at < held.inside.size(); ++at) {
    if (at == kShownThreads && held.inside.size() > kShownThreads + 1) {
      fmt::print("  and inside ranges of {} other threads\n", held.inside.size() - at);
      break;
    }
    fmt::print("  inside {}\n", described(held.inside[at], header));
  }
  std::map<trace::Use, std::int64_t> by_use;
  std::map<std::uint32_t, std::int64_t> by_process;
  for (const trace::Share& part : held.parts) {
    by_use[part.use] += part.charged;
    by_process[part.process] += part.charged;
  }
  std::string uses;
  for (const auto& [use, bytes] : by_use)
    if (bytes != 0)
      uses += fmt::format("{}{} {}", uses.empty() ? "" : " · ", trace::name_of(use), session.size(bytes_of(bytes)));
  if (!uses.empty()) fmt::print("  consisted of {}\n", uses);
  if (by_process.size() > 1) {
    std::string processes;
    for (const auto& [process, bytes] : by_process)
      processes += fmt::format("{}{} {}", processes.empty() ? "" : " · ", process_name(process, header),
                               session.size(bytes_of(bytes)));
    fmt::print("  of processes {}\n", processes);
  }
  const std::int64_t of_blocks = by_use[trace::Use::kBlocks];
  if (of_blocks > 0 && bytes_of(of_blocks) > Bytes{held.requested} && by_use[trace::Use::kPools] == 0)
    fmt::print("  the program requested {} for its blocks; rounding up to granules added the rest\n",
               session.size(Bytes{held.requested}));
  for (std::size_t at = 0; at < std::min(kShownGroups, held.largest.size()); ++at)
    fmt::print("  {}\n", described(session, held.largest[at], header));
  fmt::print("  [{}]\n", line_of(held.timeline));
}

void print_text(const Session& session, const Inspection& found, const Header& header, bool at_peak) {
  const auto processes =
      std::count_if(header.processes.begin(), header.processes.end(), [](const auto& each) { return each.pid != 0; });
  fmt::print("{}{}{} events of {} process{} in {}{}\n", printable(header.workload),
             header.workload.empty() ? "" : " · ", found.overview.events, processes, processes == 1 ? "" : "es",
             moment(found.overview.length),
             header.complete    ? ""
             : header.lost != 0 ? fmt::format(" · {} lost", header.lost)
                                : " · the run has not ended, or its end was not recorded");
  if (header.lacks_ranges)
    fmt::print(
        "NVTX ranges are not recorded: NVTX_INJECTION64_PATH named another library, which got these ranges instead\n");
  for (const Held& held : found.held) print_held(session, held, header, at_peak);
  std::vector<Group> unfreed;
  if (!found.overview.never_freed.empty()) {
    fmt::print("never freed before its process ended\n");
    for (std::size_t at = 0; at < std::min(kShownGroups, found.overview.never_freed.size()); ++at)
      fmt::print("  {}\n", described(session, found.overview.never_freed[at], header));
  }
  if (!found.overview.sizes.empty()) {
    fmt::print("sizes\n");
    for (const trace::SizeClass& size : found.overview.sizes)
      fmt::print("  up to {:>8}  {:>10} block{} · {}\n", session.size(Bytes{size.upto}), size.count,
                 size.count == 1 ? "" : "s",
                 size.freed == 0 ? "no block was freed"
                                 : "half of the freed blocks lived up to " + moment(size.middle_lifetime));
  }
  for (const trace::Asking& asking : found.overview.asked)
    fmt::print("asked  {} {} time{} how much memory there is: {}{} · {}\n", trace::name_of(asking.function),
               asking.times, asking.times == 1 ? "" : "s", session.size(Bytes{asking.least}),
               asking.most == asking.least ? "" : " to " + session.size(Bytes{asking.most}),
               process_name(asking.process, header));
  if (found.overview.denial_count != 0)
    fmt::print("denied  {} request{}\n", found.overview.denial_count, found.overview.denial_count == 1 ? "" : "s");
  for (std::size_t at = 0; at < std::min(kShownDenials, found.overview.denials.size()); ++at) {
    const trace::Denial& denial = found.overview.denials[at];
    fmt::print("  at {}  {} on {} while {} were held · {}\n", moment(denial.time), session.size(Bytes{denial.bytes}),
               name_of(denial.place, header), session.size(bytes_of(denial.held)),
               denial.kind == trace::Kind::kDenied ? fmt::format("denial {}", denial.detail)
                                                   : fmt::format("the driver's error {}", denial.detail));
    if (const std::string site = site_name(denial.site, header); !site.empty()) fmt::print("    {}\n", site);
  }
}

// ------------------------------------------------------------------------------------------------------------- tables

/// Prints what was held over time, for spreadsheets.
void print_timeline(const Inspection& found) {
  Table table({{"", "seconds"}, {"", "gpu"}, {"", "bytes"}});
  for (const trace::Total& total : found.overview.totals)
    for (std::size_t span = 0; span < total.timeline.most.size(); ++span)
      table.add({fmt::format("{:.6f}", static_cast<double>(span) * static_cast<double>(total.timeline.span) / 1e9),
                 total.place.is_host ? "host" : std::to_string(total.place.device),
                 std::to_string(total.timeline.most[span])});
  table.print(Format::kCsv);
}

/// Prints what was held at one moment, for spreadsheets.
void print_parts(const Inspection& found, const Header& header) {
  Table table({{"", "seconds"}, {"", "gpu"}, {"", "process"}, {"", "pid"}, {"", "use"}, {"", "bytes"}});
  for (const Held& held : found.held)
    for (const trace::Share& part : held.parts) {
      const bool is_known = part.process < header.processes.size();
      table.add({fmt::format("{:.6f}", static_cast<double>(held.time) / 1e9),
                 held.place.is_host ? "host" : std::to_string(held.place.device), std::to_string(part.process),
                 is_known ? std::to_string(header.processes[part.process].pid) : "", trace::name_of(part.use),
                 std::to_string(part.charged)});
    }
  table.print(Format::kCsv);
}

void print_changes(const Session& session, const std::vector<trace::Difference>& changes, bool at_peak) {
  Table table({{"GPU", "gpu", false, true},
               {"WHAT", "what"},
               {"OF", "of", false, true},
               {"BEFORE", "before", true},
               {"AFTER", "after", true},
               {"CHANGE", "change", true}});
  const auto sized = [&](std::int64_t bytes) { return session.size(bytes_of(bytes)); };
  for (const trace::Difference& change : changes) {
    const bool counts = change.what == trace::Compared::kEvents || change.what == trace::Compared::kDenied;
    const auto amount = [&](const trace::Amount& of) { return counts ? std::to_string(of.count) : sized(of.bytes); };
    std::string of = printable(change.name);
    if (change.bytes != 0)
      of = fmt::format("{} → {} × {}{}{}", change.before.count, change.after.count, session.size(Bytes{change.bytes}),
                       of.empty() ? "" : " · ", of);
    const std::int64_t more = counts ? static_cast<std::int64_t>(change.after.count - change.before.count)
                                     : change.after.bytes - change.before.bytes;
    const std::string by = counts ? std::to_string(std::abs(more)) : sized(std::abs(more));
    table.add({!change.place           ? "-"
               : change.place->is_host ? "host"
                                       : std::to_string(change.place->device),
               trace::name_of(change.what, at_peak), of.empty() ? "-" : of, amount(change.before), amount(change.after),
               more == 0 ? "-" : (more < 0 ? "-" : "+") + by});
  }
  table.print(session.format());
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Prints the page of a recording, for a browser.
Result<int> print_page(const trace::Recording& recording, std::optional<std::int64_t> at,
                       const InspectOptions& options) {
  std::unique_ptr<trace::Recording> other;
  if (!options.other.empty()) {
    RATION_TRY(other, trace::open_recording(options.other));
  }
  trace::write_html_page({&recording, file_name(options.file)}, {other.get(), file_name(options.other)}, at, std::cout);
  return 0;
}

}  // namespace

Result<int> inspect(const Session& session, const InspectOptions& options) {
  std::optional<std::int64_t> at;
  if (!options.at.empty()) {
    RATION_TRY(const auto time, parse_duration(options.at));
    at = static_cast<std::int64_t>(time);
  }
  RATION_TRY(const auto recording, trace::open_recording(options.file));
  if (session.output == "html") return print_page(*recording, at, options);
  const Inspection found = trace::inspect(*recording, at);
  std::vector<trace::Difference> changes;
  if (!options.other.empty()) {
    RATION_TRY(const auto other, trace::open_recording(options.other));
    changes = trace::difference({found, recording->header()}, {trace::inspect(*other, at), other->header()});
  }
  if (session.format() == Format::kJson) {
    nlohmann::json document = trace::to_json(found, recording->header());
    if (!options.other.empty()) document["changes"] = trace::to_json(changes, !at);
    session.print_json("inspect", document);
  } else if (!options.other.empty()) {
    print_changes(session, changes, !at);
  } else if (session.format() == Format::kCsv) {
    at ? print_parts(found, recording->header()) : print_timeline(found);
  } else {
    print_text(session, found, recording->header(), !at);
  }
  return 0;
}

}  // namespace ration::cli
