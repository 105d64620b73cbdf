#include "history/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/command.hpp"
#include "base/units.hpp"
#include "history/export/cells.hpp"
#include "history/integrator.hpp"

namespace ration::history {
namespace {

std::string size(std::int64_t bytes) { return format_size(Bytes{static_cast<std::uint64_t>(bytes)}); }

std::string bar(std::int64_t part, std::int64_t whole) {
  constexpr int kWidth = 30;
  const int filled = whole <= 0 ? 0 : static_cast<int>(std::clamp<std::int64_t>(part * kWidth / whole, 0, kWidth));
  std::string text = "[";
  for (int place = 0; place < kWidth; ++place) text += place < filled ? "█" : "░";
  return text + fmt::format("] {:3}%", whole <= 0 ? 0 : part * 100 / whole);
}

std::int64_t mean(ByteTime amount, TimeMs ms) { return ms == 0 ? 0 : static_cast<std::int64_t>(amount.byte_ms() / ms); }

bool has_limit(const RunOnDevice& device) { return device.limited > 0 && device.limited < device.device.capacity; }

std::string times(std::int64_t count) { return count == 1 ? "once" : fmt::format("{} times", count); }

std::string note_of_denials(const RunOnDevice& device, const DeniedRequests& denied) {
  const std::string begin =
      fmt::format("It was denied memory {} under a limit of {}: ", times(device.denials), size(device.limited));
  const auto next_time = [](Bytes limit) {
    return fmt::format("'ration why' explains each, or next time  {}",
                       command({"run", "--limit", exact_size(limit), "--"}) + " …");
  };
  if (denied.known == 0) {
    const Bytes more{static_cast<std::uint64_t>(device.limited + device.limited / 4)};
    return begin + "what it needed is not known; " + next_time(round_up(more, kAdviceStep));
  }
  if (denied.need() == Bytes{0})
    return fmt::format("{}it needed {}, more than the device's {}, so no limit is enough", begin,
                       format_size(denied.impossible), size(device.device.capacity));
  const std::string need = "it needed at least " + to_text(denied);
  if (denied.need() <= Bytes{static_cast<std::uint64_t>(device.limited)})
    return begin + need +
           ", which that limit allows, so the device was full or the limit was lower: 'ration why' explains it";
  return fmt::format("{}{}; {}", begin, need, next_time(least_limit(denied.need())));
}

void add_notes(RunReport& report) {
  for (const RunOnDevice& device : report.devices) {
    const auto step = static_cast<std::int64_t>(kAdviceStep.count());
    const std::int64_t enough = (device.peak + device.peak / 20 + step - 1) / step * step;
    const std::string limited_run =
        command({"run", "--limit", exact_size(Bytes{static_cast<std::uint64_t>(enough)}), "--"}) + " …";
    if (has_limit(device) && device.denials == 0 && enough + step <= device.limited) {
      report.notes.push_back(fmt::format(
          "Peak {} of {}: next time  {}{}", size(device.peak), size(device.limited), limited_run,
          report.others_waited == 0
              ? std::string()
              : fmt::format("   ({} requests of others waited or were denied meanwhile).", report.others_waited)));
    }
    if (device.denials > 0) report.notes.push_back(note_of_denials(device, report.denied));
    if (!has_limit(device)) {
      report.notes.push_back(fmt::format("It had no limit on {}: next time  {}", device.device.name, limited_run));
    }
    const std::int64_t middle = mean(device.used, device.ms);
    if (device.peak > 0 && device.ms >= 10 * kMinuteMs && middle * 2 < device.peak) {
      report.notes.push_back(
          fmt::format("On average it held {}, less than half of its peak: a guarantee of that size, with "
                      "a higher limit, leaves room for others.",
                      size(middle)));
    }
    if (device.guaranteed > 0 && device.guaranteed > device.peak + step) {
      report.notes.push_back(fmt::format("Its guarantee of {} was never reached: {} of it were kept from others.",
                                         size(device.guaranteed), size(device.guaranteed - device.peak)));
    }
  }
}

}  // namespace

Result<RunReport> make_run_report(Database& database, const std::string& workload) {
  RunReport report;
  std::int64_t id = 0;
  Statement newest(database,
                   "SELECT id, number, started, workload, tenant, user, labels, ended, exit_code FROM runs "
                   "WHERE ?1 = '' OR workload = ?1 OR tenant || '/' || workload = ?1 ORDER BY started DESC, id DESC "
                   "LIMIT 1");
  if (newest.with(workload).row()) {
    id = newest.integer(0);
    report.run = {newest.integer(1), newest.integer(2), newest.text(3), newest.text(4), newest.text(5), newest.text(6)};
    report.ended = newest.maybe_integer(7), report.exit_code = newest.maybe_integer(8);
  }
  RATION_TRY(database.outcome());
  if (id == 0) {
    return fail(
        "E1917",
        workload.empty() ? std::string("no run is recorded.") : fmt::format("no run of {} is recorded.", workload),
        "ration report --by workload   lists the recorded ones", 3);
  }
  TimeMs first = 0, last = 0;
  Statement devices(database,
                    "SELECT device, uuid, name, capacity, first, last, peak, limited, guaranteed, denials FROM "
                    "run_devices JOIN devices ON devices.id = device WHERE run = ? ORDER BY device");
  Statement sums(database,
                 "SELECT ms, used, limited FROM usage WHERE hour >= ? AND hour <= ? AND run = ? AND device = ?");
  devices.with(id);
  while (devices.row()) {
    RunOnDevice on;
    on.device = {devices.text(1), devices.text(2), devices.integer(3)};
    on.first = devices.integer(4), on.last = devices.integer(5), on.peak = devices.integer(6);
    on.limited = devices.integer(7), on.guaranteed = devices.integer(8), on.denials = devices.integer(9);
    sums.with(on.first / kHourMs, on.last / kHourMs, id, devices.integer(0));
    while (sums.row()) {
      on.ms += sums.integer(0);
      on.used += ByteTime{sums.integer(1)};
      on.limit_time += ByteTime{sums.integer(2)};
    }
    first = first == 0 ? on.first : std::min(first, on.first);
    last = std::max(last, on.last);
    report.devices.push_back(on);
  }
  Statement pinned(database, "SELECT peak, denials, first, last FROM run_devices WHERE run = ? AND device = ?");
  if (pinned.with(id, kPinnedHost).row()) {
    report.pinned = {pinned.integer(0), pinned.integer(1), {}};
    sums.with(pinned.integer(2) / kHourMs, pinned.integer(3) / kHourMs, id, kPinnedHost);
    while (sums.row()) report.pinned->used += ByteTime{sums.integer(1)};
  }
  std::int64_t capacity = 0;
  for (const RunOnDevice& device : report.devices) capacity = std::max(capacity, device.device.capacity);
  const auto denied = read_denied_requests(database, report.run.tenant + "/" + report.run.workload, report.run.started,
                                           Bytes{static_cast<std::uint64_t>(capacity)});
  if (const auto own = denied.find(id); own != denied.end()) report.denied = own->second;
  // The run may have ended before a sample showed its denials.
  if (report.devices.size() == 1) report.devices[0].denials = std::max(report.devices[0].denials, report.denied.known);
  Statement waited(
      database,
      "SELECT count(*) FROM events WHERE time >= ? AND time <= ? AND type IN ('waited', 'queued', 'denied') "
      "AND workload <> ?");
  if (waited.with(first, last, report.run.workload).row()) report.others_waited = waited.integer(0);
  RATION_TRY(database.outcome());
  add_notes(report);
  return report;
}

namespace {

std::string minute(TimeMs time) {
  std::string text = rfc3339(time).substr(0, 16);
  text[10] = ' ';
  return text;
}

/// Formats `2026-01-05 05:00 → 2026-01-05 07:00Z (2h 00m)  exit 3`.
std::string when(const RunReport& report) {
  TimeMs last = 0;
  for (const RunOnDevice& device : report.devices) last = std::max(last, device.last);
  const TimeMs end = report.ended.value_or(last);
  return fmt::format(
      "{} → {}Z ({})  {}", minute(report.run.started), minute(end),
      format_duration(static_cast<std::uint64_t>(std::max<TimeMs>(end - report.run.started, 0)) * 1'000'000),
      report.exit_code ? fmt::format("exit {}", *report.exit_code)
      : report.ended   ? "ended"
                       : "running");
}

}  // namespace

std::string to_text(const RunReport& report) {
  const RunFacts& run = report.run;
  std::string text =
      fmt::format("================ {}/{} · run {} ================\n", run.tenant, run.workload, run.number);
  text += fmt::format(" user {}  tenant {}  {}\n", run.user, run.tenant, when(report));
  if (!run.labels.empty()) text += fmt::format(" labels {}\n", run.labels);
  for (const RunOnDevice& device : report.devices) {
    const std::int64_t middle = mean(device.used, device.ms);
    text += fmt::format(" {} {}\n", device.device.name, device.device.uuid);
    const char* of = has_limit(device) ? "limit" : "device";
    text += fmt::format(" memory, peak of {:<7} {}   {} / {}\n", of, bar(device.peak, device.limited),
                        size(device.peak), size(device.limited));
    text += fmt::format(" memory, mean of {:<7} {}   {}\n", of, bar(middle, device.limited), size(middle));
    text += fmt::format(" denials {} · GiB·h used {}, limit {}\n", device.denials, figures(gib_hours(device.used)),
                        figures(gib_hours(device.limit_time)));
  }
  if (!report.pinned)
    text += " pinned host memory n/a (not counted)\n";
  else if (report.pinned->peak > 0 || report.pinned->denials > 0)
    text += fmt::format(" pinned host memory, peak {} · denials {} · GiB·h used {}\n", size(report.pinned->peak),
                        report.pinned->denials, figures(gib_hours(report.pinned->used)));
  if (report.notes.empty()) return text;
  text += "Notes\n";
  for (const std::string& note : report.notes) text += " * " + note + "\n";
  return text;
}

std::string to_markdown(const RunReport& report) {
  const RunFacts& run = report.run;
  std::string text = fmt::format("## {} · run {}\n\n", markdown_cell(run.tenant + "/" + run.workload), run.number);
  text += fmt::format("user {}, tenant {}, {}\n\n", markdown_cell(run.user), markdown_cell(run.tenant), when(report));
  if (!run.labels.empty()) text += "labels " + markdown_cell(run.labels) + "\n\n";
  text += "| GPU | peak | mean | limit | peak of limit | denials | GiB·h used | GiB·h limit |\n";
  text += "|:--|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const RunOnDevice& device : report.devices) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n",
                        markdown_cell(device.device.name + " " + device.device.uuid), size(device.peak),
                        size(mean(device.used, device.ms)), has_limit(device) ? size(device.limited) : "n/a (no limit)",
                        has_limit(device) ? fmt::format("{}%", device.peak * 100 / device.limited) : "n/a (no limit)",
                        device.denials, figures(gib_hours(device.used)), figures(gib_hours(device.limit_time)));
  }
  if (!report.pinned)
    text += "| pinned host memory | n/a (not counted) | | | | | | |\n";
  else if (report.pinned->peak > 0 || report.pinned->denials > 0)
    text += fmt::format("| pinned host memory | {} | | | | {} | {} | |\n", size(report.pinned->peak),
                        report.pinned->denials, figures(gib_hours(report.pinned->used)));
  if (!report.notes.empty()) text += "\n";
  for (const std::string& note : report.notes) text += "- " + markdown_cell(note) + "\n";
  return text;
}

}  // namespace ration::history
