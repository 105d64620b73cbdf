#include "history/recommend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/command.hpp"
#include "base/message_json.hpp"
#include "base/say.hpp"
#include "base/units.hpp"
#include "history/integrator.hpp"

namespace ration::history {
namespace {

Bytes as_bytes(std::int64_t count) { return Bytes{static_cast<std::uint64_t>(count)}; }

/// Reads the runs. Sets `newest` to the id of the newest run.
std::vector<RecordedRun> read_runs(Database& database, const RecommendQuestion& question, std::int64_t& newest) {
  std::map<std::int64_t, RecordedRun> runs;
  Bytes capacity;
  Statement rows(
      database,
      "SELECT run, first, last, peak, limited, denials, capacity FROM run_devices JOIN runs ON runs.id = run "
      "JOIN devices ON devices.id = device WHERE (workload = ?1 OR tenant || '/' || workload = ?1) "
      "AND last >= ?2");
  rows.with(question.workload, question.now - question.window);
  TimeMs since = question.now;
  while (rows.row()) {
    RecordedRun& run = runs[rows.integer(0)];
    run.first = run.first == 0 ? rows.integer(1) : std::min(run.first, rows.integer(1));
    run.last = std::max(run.last, rows.integer(2));
    run.denials += rows.integer(5);
    since = std::min(since, run.first);
    capacity = std::max(capacity, as_bytes(rows.integer(6)));
    if (as_bytes(rows.integer(3)) < run.peak) continue;
    run.peak = as_bytes(rows.integer(3)), run.limited = as_bytes(rows.integer(4));
    run.capacity = as_bytes(rows.integer(6));
  }
  since -= kDayMs;  // the run may have been denied memory before its first sample
  for (const auto& [id, denied] : read_denied_requests(database, question.workload, since, capacity)) {
    const auto run = runs.find(id);
    if (run == runs.end()) continue;
    run->second.denied = denied;
    run->second.denials = std::max(run->second.denials, denied.known);
  }
  std::vector<RecordedRun> list;
  for (const auto& [id, run] : runs) {
    if (list.empty() || run.last >= runs.at(newest).last) newest = id;
    list.push_back(run);
  }
  return list;
}

std::map<std::int64_t, TimeMs> read_levels(Database& database, const RecommendQuestion& question) {
  Statement rows(database,
                 "SELECT step, sum(ms) FROM levels WHERE (run, device) IN (SELECT run, device FROM run_devices "
                 "JOIN runs ON runs.id = run WHERE (workload = ?1 OR tenant || '/' || workload = ?1) AND last >= ?2) "
                 "GROUP BY step ORDER BY step");
  rows.with(question.workload, question.now - question.window);
  std::map<std::int64_t, TimeMs> levels;
  while (rows.row()) levels[rows.integer(0)] = rows.integer(1);
  return levels;
}

Bytes quantile(const std::vector<Bytes>& sorted, double part) {
  const auto place = static_cast<std::size_t>(part * static_cast<double>(sorted.size()) + 0.999999);
  return sorted[std::clamp<std::size_t>(place, 1, sorted.size()) - 1];
}

Bytes needed(const RecordedRun& run) { return std::max(run.peak, run.denied.need()); }

// Returns a lower bound for the need of a run whose denied requests are not recorded: its limit, which the need
// exceeded.
Bytes denied_at(const RecordedRun& run) { return run.denials > 0 && run.denied.known == 0 ? run.limited : Bytes{0}; }

bool would_be_denied(const RecordedRun& run, Bytes limit) {
  return needed(run) > limit || run.denied.impossible > Bytes{0} ||
         (denied_at(run) > Bytes{0} && limit <= denied_at(run));
}

std::size_t denied_at(const std::vector<RecordedRun>& runs, Bytes limit) {
  return static_cast<std::size_t>(
      std::count_if(runs.begin(), runs.end(), [&](const RecordedRun& run) { return would_be_denied(run, limit); }));
}

struct Choice {
  Bytes limit;
  std::string reason;
};

Choice choose_by_peaks(Bytes largest) {
  const Bytes spread{largest.count() / 20};
  return {round_up(largest + spread + kGranule, kAdviceStep),
          fmt::format("max {} + 5% spread + 1 granule, rounded to 256 MiB", format_size(largest))};
}

Choice choose_by_needs(const DeniedRequests& denied) {
  return {
      least_limit(denied.need()),
      fmt::format("a denied run needed at least {}, rounded to 256 MiB; how much more is not known", to_text(denied))};
}

Choice choose_above(Bytes denied_at) {
  return {round_up(Bytes{denied_at.count() + denied_at.count() / 4}, kAdviceStep),
          fmt::format(
              "a quarter above {}, the highest limit at which a run was denied memory; how much it needed is not known",
              format_size(denied_at))};
}

Choice cap(Choice choice, Bytes capacity) {
  if (capacity == Bytes{0} || choice.limit <= capacity) return choice;
  return {capacity, fmt::format("capped by the device's {}", format_size(capacity))};
}

void choose_limit(Recommendation& found, const RecommendQuestion& question, const std::vector<RecordedRun>& runs) {
  Bytes unknown, capacity;
  for (const RecordedRun& run : runs) {
    unknown = std::max(unknown, denied_at(run));
    capacity = std::max(capacity, run.capacity);
  }
  // The peak of a denied run shows what the run got, not what it needed.
  Choice choice = choose_by_peaks(found.peak_max);
  if (Choice other = choose_by_needs(found.denied); other.limit > choice.limit) choice = std::move(other);
  if (Choice other = choose_above(unknown); unknown > Bytes{0} && other.limit >= choice.limit)
    choice = std::move(other);
  if (choice.limit < question.floor)
    choice = {question.floor, fmt::format("the floor of {}: less is not worth a limit (the peak is {})",
                                          format_size(question.floor), format_size(found.peak_max))};
  choice = cap(std::move(choice), capacity);
  if (found.denied.impossible > Bytes{0})
    choice.reason += fmt::format("; a run needed {}, which is more than the device's {}",
                                 format_size(found.denied.impossible), format_size(capacity));
  found.limit = choice.limit, found.limit_reason = std::move(choice.reason);
}

// Chooses the level that runs exceeded for 95 % of their running time, rounded down to a step.
void choose_guarantee(Recommendation& found, const Past& past) {
  TimeMs all = 0, below = 0;
  for (const auto& [step, ms] : past.levels) all += ms;
  for (const auto& [step, ms] : past.levels) {
    found.guarantee = std::min(as_bytes(step * kLevelStep), found.limit);
    below += ms;
    if (below * 20 > all) break;
  }
  found.guarantee_reason = "level above which it stayed for 95% of its running time";
}

void check_back(Recommendation& found, const std::vector<RecordedRun>& runs) {
  std::vector<Bytes> limits{found.limit};
  for (const Bytes lower :
       {std::max(found.denied.need(), found.peak_max), found.peak_max, found.peak_p95, found.peak_p50}) {
    const Bytes rounded = round_down(lower, kAdviceStep);
    if (rounded > Bytes{0} && rounded < limits.back()) limits.push_back(rounded);
  }
  for (const Bytes limit : limits) found.checks.push_back({limit, denied_at(runs, limit)});
}

// Names the newest run and notes whether it still ran at the daemon's last tick. The end of a run is recorded as an
// event at once, and stored with the run only some seconds later. So a run also counts as ended if an event reports an
// end under its name after it started.
void name_newest(Past& past, Database& database, std::int64_t run) {
  Statement row(database,
                "SELECT workload, tenant, ended IS NULL AND id IN (SELECT run FROM last_holdings) AND NOT EXISTS ("
                "SELECT 1 FROM events WHERE type = 'ended' AND events.workload = runs.workload AND "
                "events.tenant = runs.tenant AND time >= started) FROM runs WHERE id = ?");
  if (!row.with(run).row()) return;
  past.name = row.text(0), past.tenant = row.text(1), past.running = row.integer(2) != 0;
}

}  // namespace

Result<Recommendation> make_recommendation(Database& database, const RecommendQuestion& question) {
  Past past;
  std::int64_t newest = 0;
  past.runs = read_runs(database, question, newest);
  RATION_TRY(database.outcome());
  if (past.runs.empty()) {
    return fail("E1917",
                fmt::format("{} has not run in the last {} days.", question.workload, question.window / kDayMs),
                "ration report --by workload   lists those that have", 3);
  }
  name_newest(past, database, newest);
  past.levels = read_levels(database, question);
  RATION_TRY(database.outcome());
  return recommend(question, past);
}

Recommendation recommend(const RecommendQuestion& question, const Past& past) {
  const std::vector<RecordedRun>& runs = past.runs;
  Recommendation found;
  found.workload = question.workload;
  found.name = past.name, found.tenant = past.tenant, found.running = past.running;
  found.runs = runs.size();
  found.fewest_runs = question.fewest_runs;
  std::vector<Bytes> peaks;
  TimeMs ran = 0;
  const RecordedRun* newest = &runs.front();
  found.first_run = runs.front().first;
  for (const RecordedRun& run : runs) {
    peaks.push_back(run.peak);
    found.denials += static_cast<std::uint64_t>(run.denials);
    found.first_run = std::min(found.first_run, run.first);
    found.last_run = std::max(found.last_run, run.last);
    ran += run.last - run.first;
    found.denied.add(run.denied);
    if (run.last >= newest->last) newest = &run;
  }
  std::sort(peaks.begin(), peaks.end());
  found.peak_p50 = quantile(peaks, 0.5), found.peak_p95 = quantile(peaks, 0.95), found.peak_max = peaks.back();
  if (newest->limited > Bytes{0} && newest->limited < newest->capacity) found.limit_today = newest->limited;
  found.enough = runs.size() >= question.fewest_runs;
  choose_limit(found, question, runs);
  if (!found.enough) {
    found.confidence = "low";
    return found;
  }
  choose_guarantee(found, past);
  check_back(found, runs);
  const bool steady = found.peak_max.count() <= found.peak_p50.count() + found.peak_p50.count() / 2;
  const bool any_denied = std::any_of(runs.begin(), runs.end(), [](const RecordedRun& run) { return run.denials > 0; });
  found.confidence = runs.size() >= 20 && steady && !any_denied ? "good" : runs.size() >= 10 && steady ? "fair" : "low";
  // Scales the observed time, at least a day, to a month.
  const TimeMs seen = std::max(question.now - found.first_run, kDayMs);
  found.hours_a_month_ms = static_cast<TimeMs>(__int128{ran} * 30 * kDayMs / seen);
  if (found.limit_today && *found.limit_today > found.limit) {
    found.wasted_a_month = ByteTime{__int128{(*found.limit_today - found.limit).count()} * found.hours_a_month_ms};
  }
  return found;
}

std::string command_of(const Recommendation& found) {
  const auto amount = [](Bytes bytes) { return bytes == Bytes{0} ? std::string() : exact_size(bytes); };
  const std::string limit = amount(found.limit), guarantee = amount(found.guarantee);
  if (found.running)
    return command({"set", found.workload, limit.empty() ? "" : "--limit", limit,
                    guarantee.empty() ? "" : "--guarantee", guarantee});
  const bool own_tenant = found.tenant != "default";
  return command({"run", "--name", found.name, own_tenant ? "--tenant" : "", own_tenant ? found.tenant : "",
                  limit.empty() ? "" : "--limit", limit, guarantee.empty() ? "" : "--guarantee", guarantee, "--"}) +
         " …";
}

std::string to_text(const Recommendation& found, TimeMs now) {
  const auto size = [](Bytes bytes) { return format_size(bytes); };
  if (!found.enough) {
    return fmt::format(
        "not enough history: {} run{} (need {}) - showing the largest peak seen, {}{}. Give a limit of at least {}, or "
        "let it run more often.\n",
        found.runs, found.runs == 1 ? "" : "s", found.fewest_runs, size(found.peak_max),
        found.denied.need() > found.peak_max ? "; a denied run needed at least " + to_text(found.denied) : "",
        size(found.limit));
  }
  const TimeMs ago = std::max<TimeMs>(now - found.last_run, 0), seen = std::max<TimeMs>(now - found.first_run, 0);
  const TimeMs days = std::max<TimeMs>((seen + kDayMs - 1) / kDayMs, 1);
  std::string text =
      fmt::format("{} - {} runs in {} day{}, last {} ago   confidence: {}\n", found.workload, found.runs, days,
                  days == 1 ? "" : "s", format_duration(static_cast<std::uint64_t>(ago) * 1'000'000), found.confidence);
  text += fmt::format("  peak             p50 {}   p95 {}   max {}      denials {}\n", size(found.peak_p50),
                      size(found.peak_p95), size(found.peak_max), found.denials);
  text += fmt::format("  → limit {}      = {}\n", size(found.limit), found.limit_reason);
  text += fmt::format("  → guarantee {}   = {}\n", size(found.guarantee), found.guarantee_reason);
  text += fmt::format("  check: replaying {} recorded runs", found.runs);
  const char* join = " ";
  for (const BackTest& check : found.checks) {
    text += fmt::format("{}at {} → {}{}", join, size(check.limit), check.denied,
                        *join == ' ' && join[1] == 0 ? " denied" : "");
    join = " · ";
  }
  text += "\n";
  if (found.wasted_a_month > ByteTime{}) {
    text += fmt::format("  today's limit {} wastes {} × {:.0f} h/month = {:.0f} GiB·h\n", size(*found.limit_today),
                        size(*found.limit_today - found.limit), static_cast<double>(found.hours_a_month_ms) / kHourMs,
                        gib_hours(found.wasted_a_month));
  }
  text += "apply:  " + command_of(found) + "\n";
  return text;
}

nlohmann::json to_json(const Recommendation& found, TimeMs now) {
  nlohmann::json row{{"workload", found.workload},
                     {"runs", found.runs},
                     {"enough", found.enough},
                     {"confidence", found.confidence},
                     {"limit_bytes", found.limit.count()},
                     {"guarantee_bytes", found.guarantee.count()},
                     {"limit_reason", found.limit_reason},
                     {"guarantee_reason", found.guarantee_reason},
                     {"peak_max_bytes", found.peak_max.count()},
                     {"text", to_text(found, now)}};
  if (found.enough) return row;
  const Message reason = say<"unknown.few_runs">("count"_is(found.runs), "needed"_is(found.fewest_runs));
  for (const char* field : {"guarantee_bytes", "guarantee_reason"}) {
    row[field] = nullptr;
    put_message(row, std::string(field) + "_na", reason);
  }
  return row;
}

}  // namespace ration::history
