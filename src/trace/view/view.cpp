#include "trace/view/view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "trace/inspection_json.hpp"
#include "trace/kinds.hpp"
#include "trace/view/moment.hpp"

namespace ration::trace {
namespace {

using nlohmann::json;

/// The call sites that a document refers to by number.
class Sites {
 public:
  explicit Sites(const Header& header) : header_(header) {}
  /// Notes a call site. Returns its number, or 0 if the header has no text for it.
  std::uint32_t note(std::uint32_t site) {
    if (site >= header_.sites.size()) return 0;
    if (site != 0) noted_.insert(site);
    return site;
  }
  [[nodiscard]] json texts() const {
    json texts = json::object();
    for (const std::uint32_t site : noted_) texts[std::to_string(site)] = header_.sites[site];
    return texts;
  }

 private:
  const Header& header_;
  std::set<std::uint32_t> noted_;
};

std::string address_text(std::uint64_t address) { return fmt::format("{:#x}", address); }

json devices_json(const Header& header) {
  json rows = json::array();
  for (const Device& device : header.devices)
    rows.push_back({{"uuid", device.uuid},
                    {"name", device.name},
                    {"total_bytes", device.total.count()},
                    {"limit_bytes", device.limit ? json(device.limit->count()) : json()}});
  return rows;
}

json listed_json(const Window& window, Sites& sites) {
  json rows = json::array();
  for (const auto& [event, held] : window.listed) {
    json row{{"seconds", seconds_of(event.time)}, {"kind", name_of(event.kind)}, {"gpu", gpu_of(place_of(event))},
             {"process", event.process},          {"thread", event.thread},      {"bytes", event.bytes},
             {"charged_bytes", event.charged},    {"held_bytes", held},          {"site", sites.note(event.site)}};
    if (event.address != 0) row["address"] = address_text(event.address);
    if (event.stream != 0) row["stream"] = address_text(event.stream);
    rows.push_back(std::move(row));
  }
  return rows;
}

json window_json(const Window& window, Sites& sites) {
  json lines = json::array();
  for (const Line& line : window.lines) lines.push_back({{"gpu", gpu_of(line.place)}, {"most_bytes", line.most}});
  return {{"from_seconds", seconds_of(window.from)},
          {"to_seconds", seconds_of(window.to)},
          {"step_seconds", seconds_of(window.step)},
          {"lines", std::move(lines)},
          {"events", window.events ? json(*window.events) : json()},
          {"listed", listed_json(window, sites)}};
}

json holes_json(const Holes& holes) {
  return {{"bytes", holes.bytes}, {"largest_bytes", holes.largest}, {"count", holes.count}};
}

/// Returns the runs as columns: one list for each property.
json runs_json(const std::vector<Run>& runs, Sites& sites) {
  json columns;
  for (const char* column : {"process", "address", "span_bytes", "bytes", "count", "site", "since_seconds"})
    columns[column] = json::array();
  for (const Run& run : runs) {
    columns["process"].push_back(run.process);
    columns["address"].push_back(address_text(run.address));
    columns["span_bytes"].push_back(run.span);
    columns["bytes"].push_back(run.bytes);
    columns["count"].push_back(run.count);
    columns["site"].push_back(sites.note(run.site));
    columns["since_seconds"].push_back(seconds_of(run.since));
  }
  return columns;
}

json map_json(const AddressMap& map, Sites& sites) {
  return {{"runs", runs_json(map.runs, sites)},
          {"holes", holes_json(map.holes)},
          {"blocks", map.blocks},
          {"unaddressed_bytes", map.unaddressed}};
}

json groups_json(const std::vector<Group>& groups, Sites& sites) {
  json rows = json::array();
  for (const Group& group : groups)
    rows.push_back(
        {{"process", group.process}, {"site", sites.note(group.site)}, {"bytes", group.bytes}, {"count", group.count}});
  return rows;
}

json parts_json(const Live& live, Place place) {
  json rows = json::array();
  for (const auto& [key, charged] : live.uses(place))
    if (charged != 0) rows.push_back({{"use", name_of(key.second)}, {"process", key.first}, {"bytes", charged}});
  return rows;
}

/// Returns the greatest length of a hole of a place: the most bytes that the place ever held.
std::uint64_t longest_hole(const Total& total) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, total.peak));
}

/// Describes a place at a moment.
json place_json(const Live& live, const Total& total, std::int64_t time, const Detail& detail, Sites& sites) {
  std::uint64_t left_out = 0;
  const std::vector<Group> groups = groups_of(live, total.place, detail.groups, left_out);
  return {{"gpu", gpu_of(total.place)},
          {"seconds", seconds_of(time)},
          {"bytes", live.held(total.place)},
          {"parts", parts_json(live, total.place)},
          {"groups", groups_json(groups, sites)},
          {"ungrouped_bytes", left_out},
          {"map", map_json(map_of(live, total.place, longest_hole(total), detail.runs), sites)}};
}

/// Returns `count` times, spread evenly over a range; the last is the end of the range.
std::vector<std::int64_t> moments_of(std::int64_t from, std::int64_t to, std::size_t count) {
  std::vector<std::int64_t> times;
  const double step = static_cast<double>(to - from) / static_cast<double>(count);
  for (std::size_t at = 1; at <= count; ++at)
    times.push_back(at == count ? to : from + static_cast<std::int64_t>(step * static_cast<double>(at)));
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

/// Returns the overview that the recording keeps. If it keeps none, makes the overview in `made`.
const Overview& overview_of(const Recording& recording, Overview& made) {
  if (const Overview* kept = recording.overview()) return *kept;
  made = inspect(recording).overview;
  return made;
}

}  // namespace

json view_of(const Recording& recording, const Range& range, const Detail& detail) {
  const Header& header = recording.header();
  Inspection found = inspect(recording);
  const Window window = window_of(recording, found.overview, range);
  const std::size_t marks = found.overview.marks.size();
  if (found.overview.denials.size() > detail.denials) found.overview.denials.resize(detail.denials);
  if (marks > detail.marks) found.overview.marks.resize(detail.marks);
  Sites sites(header);
  json document{{"inspection", to_json(found, header)},
                {"mark_count", marks},
                {"deep", header.deep},
                {"booked", header.booked},
                {"devices", devices_json(header)},
                {"window", window_json(window, sites)}};
  document["sites"] = sites.texts();
  return document;
}

json moment_view(const Recording& recording, std::optional<std::int64_t> at, const Detail& detail) {
  Overview made;
  const Overview& overview = overview_of(recording, made);
  Sites sites(recording.header());
  json places = json::array();
  (void)inspect(recording, at, [&](const Held& held, const Live& live) {
    for (const Total& total : overview.totals)
      if (total.place == held.place) places.push_back(place_json(live, total, held.time, detail, sites));
  });
  return {{"at_peak", !at}, {"places", std::move(places)}, {"sites", sites.texts()}};
}

json moment_views(const Recording& recording, const std::vector<std::int64_t>& times, const Detail& detail) {
  Overview made;
  const Overview& overview = overview_of(recording, made);
  json documents = json::array();
  at_times(recording, times, [&](std::size_t at, const Live& live) {
    Sites sites(recording.header());
    json places = json::array();
    for (const Total& total : overview.totals) places.push_back(place_json(live, total, times[at], detail, sites));
    documents.push_back({{"at_peak", false}, {"places", std::move(places)}, {"sites", sites.texts()}});
  });
  return documents;
}

json usage_view(const Recording& recording, const Range& range, const Detail& detail) {
  Overview made;
  const Overview& overview = overview_of(recording, made);
  const std::int64_t from = std::clamp<std::int64_t>(range.from, 0, overview.length);
  const std::int64_t to = std::clamp<std::int64_t>(range.to, from, overview.length);
  const std::vector<std::int64_t> times = moments_of(from, to, detail.moments);
  json seconds = json::array(), lines = json::array();
  for (const std::int64_t time : times) seconds.push_back(seconds_of(time));
  for (const Total& total : overview.totals) {
    json line{{"gpu", gpu_of(total.place)}};
    for (const char* column : {"held_bytes", "requested_bytes", "fixed_bytes", "holes_bytes", "largest_hole_bytes"})
      line[column] = json::array();
    lines.push_back(std::move(line));
  }
  at_times(recording, times, [&](std::size_t, const Live& live) {
    for (std::size_t at = 0; at < overview.totals.size(); ++at) {
      const Total& total = overview.totals[at];
      const Usage usage = usage_of(live, total.place, longest_hole(total));
      lines[at]["held_bytes"].push_back(usage.held);
      lines[at]["requested_bytes"].push_back(usage.requested);
      lines[at]["fixed_bytes"].push_back(usage.fixed);
      lines[at]["holes_bytes"].push_back(usage.holes.bytes);
      lines[at]["largest_hole_bytes"].push_back(usage.holes.largest);
    }
  });
  return {{"seconds", std::move(seconds)}, {"lines", std::move(lines)}};
}

json changes_view(const Recording& before, const Recording& after, std::optional<std::int64_t> at) {
  const Inspection old = inspect(before, at), now = inspect(after, at);
  return to_json(difference({old, before.header()}, {now, after.header()}), !at);
}

}  // namespace ration::trace
