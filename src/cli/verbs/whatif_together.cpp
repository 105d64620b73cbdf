#include "cli/verbs/whatif_together.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trace/whatif/together.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kMostNamed = 3;  // ranges; a line has room for so many

/// Returns the share of these ranges in all starts of the second run at which the two runs overlap, from 0 to 1.
double share_of(const std::vector<trace::Starts>& starts, const trace::Curve& first, const trace::Curve& second) {
  double sum = 0;
  for (const auto& [begin, end] : starts) sum += static_cast<double>(end - begin);
  return std::min(1.0, sum / static_cast<double>(first.length + second.length));
}

/// Returns when the second run starts, relative to the start of the first: `3m 10s to 5m 50s after`, `4s to 6s before`.
std::string text_of(const trace::Starts& starts) {
  const auto& [begin, end] = starts;
  const auto range = [](const std::string& from, const std::string& to) {
    return from == to ? from : fmt::format("{} to {}", from, to);
  };
  if (begin >= 0) return range(moment(begin), moment(end)) + " after";
  if (end <= 0) return range(moment(-end), moment(-begin)) + " before";
  return fmt::format("{} before to {} after", moment(-begin), moment(end));
}

std::string text_of(const std::vector<trace::Starts>& starts) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < std::min(starts.size(), kMostNamed); ++at) texts.push_back(text_of(starts[at]));
  const std::string more =
      starts.size() > kMostNamed ? fmt::format(" and at {} more times", starts.size() - kMostNamed) : "";
  return fmt::format("{}{}", fmt::join(texts, ", "), more);
}

/// Returns how many copies fit in at least 95 %, 50 % and 5 % of starts: ` · 3 in 95% of random starts · 7 in 55%`.
std::string text_of(const trace::Copies& copies) {
  std::string text;
  std::size_t shown = 0;
  for (const double least : {0.95, 0.5, 0.05}) {
    const auto end =
        std::find_if(copies.often.begin(), copies.often.end(), [&](double share) { return share < least; });
    const auto count = static_cast<std::size_t>(end - copies.often.begin());
    if (count == shown) continue;
    text += fmt::format(" · {} in {:.0f}%{}", copies.always + count, 100 * copies.often[count - 1],
                        shown == 0 ? " of random starts" : "");
    shown = count;
  }
  return text;
}

json to_json(const std::vector<trace::Starts>& starts) {
  json ranges = json::array();
  for (const auto& [begin, end] : starts)
    ranges.push_back({{"from_seconds", seconds(begin)}, {"to_seconds", seconds(end)}});
  return ranges;
}

/// Returns the earliest moment at or after the first run's start from which every later start of the second run fits.
std::int64_t safe_from(const std::vector<trace::Starts>& over) {
  std::int64_t start = 0;
  for (const auto& [begin, end] : over) start = std::max(start, end);
  return start;
}

/// Returns the earliest moment at or after the first run's start at which the second run may start.
std::int64_t first_safe(const std::vector<trace::Starts>& over) {
  std::int64_t start = 0;
  for (const auto& [begin, end] : over)
    if (begin < start && start < end) start = end;
  return start;
}

void ask_together(const Session& session, const trace::Curve& first, const trace::Curve& second,
                  std::optional<Bytes> size, SideBySide& answer) {
  const Bytes worst = first.peak + second.peak;
  const auto worst_starts =
      worst == Bytes{0} ? std::vector<trace::Starts>{} : trace::starts_over(first, second, worst - Bytes{1});
  json& document =
      answer.document["together"] = {{"worst_bytes", worst.count()}, {"worst_starts", to_json(worst_starts)}};
  answer.text += fmt::format(
      "together     worst {}, if the second run starts {} the first; with any other start, the two runs need no more "
      "than that\n",
      session.size(worst), text_of(worst_starts));
  if (!size) return;
  const auto over = trace::starts_over(first, second, *size);
  answer.fits = over.empty();
  document["starts_over"] = to_json(over);
  document["fitting_share"] = 1 - share_of(over, first, second);
  document["first_safe_start_seconds"] = seconds(first_safe(over));
  answer.text += fmt::format("on {:<10}", session.size(*size));
  if (over.empty())
    answer.text += "fits at any start\n";
  else
    answer.text += fmt::format("does not fit if the second run starts {} the first; from {} on, it fits\n",
                               text_of(over), moment(safe_from(over)));
}

void ask_copies(const Session& session, const trace::Curve& run, Bytes size, SideBySide& answer) {
  const trace::Copies copies = trace::copies_on(run, size);
  json often = json::array();
  std::string text = fmt::format("copies       {} always", copies.always);
  std::uint64_t count = copies.always;
  for (const double share : copies.often) {
    often.push_back({{"copies", ++count}, {"share", share}});
  }
  text += text_of(copies);
  answer.document["copies"] = {{"always", copies.always}, {"often", std::move(often)}, {"never", count + 1}};
  answer.text += fmt::format("{} · {} never  (copies of the first run on {})\n", text, count + 1, session.size(size));
  if (copies.always == 0) answer.fits = false;
}

}  // namespace

std::string moment(std::int64_t nanoseconds) {
  const auto time = static_cast<std::uint64_t>(nanoseconds);
  if (time == 0) return "0s";
  if (time < 1'000) return fmt::format("{}ns", time);
  if (time < 1'000'000) return fmt::format("{}µs", time / 1'000);
  return time < 10'000'000'000 ? fmt::format("{:.3f}s", seconds(nanoseconds)) : format_duration(time);
}

SideBySide side_by_side(const Session& session, const trace::Recording& first, const trace::Recording* second,
                        std::optional<Bytes> size) {
  SideBySide answer;
  const trace::Curve run = trace::curve_of(first);
  const trace::Curve other = second != nullptr ? trace::curve_of(*second) : trace::Curve{};
  const bool booked = first.header().booked && (second == nullptr || second->header().booked);
  const bool simplified = run.is_simplified || other.is_simplified;
  const trace::Judgement judgement =
      booked ? trace::Judgement{trace::Grade::kExact,
                                simplified ? "times are rounded, so that the sum of both runs is never too low" : ""}
             : trace::Judgement{trace::Grade::kUnknown,
                                "this history does not contain what was charged: the runs might need more"};
  answer.document = {{"grade", trace::name_of(judgement.grade)}, {"reason", judgement.reason}};
  if (second != nullptr) ask_together(session, run, other, size, answer);
  if (size) ask_copies(session, run, *size, answer);
  answer.text += fmt::format("             {}{}{}\n", trace::name_of(judgement.grade),
                             judgement.reason.empty() ? "" : ": ", judgement.reason);
  return answer;
}

}  // namespace ration::cli
