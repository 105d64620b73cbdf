#include "trace/inspection.hpp"

#include <algorithm>

namespace ration::trace {
namespace {

Overview overview_of(const Recording& recording) {
  if (const Overview* kept = recording.overview()) return *kept;
  OverviewBuilder builder(recording.header());
  recording.read([&](const Event& event) {
    builder.add(event);
    return true;
  });
  return builder.finish();
}

void describe(Held& held, const Live& live, const Header& header, const std::vector<Mark>& marks) {
  held.charged = live.held(held.place);
  if (live.marks() > 0 && live.marks() <= marks.size()) {
    const std::uint32_t site = marks[live.marks() - 1].site;
    held.mark = site < header.sites.size() ? header.sites[site] : "";
  }
  for (const OpenRange& range : live.ranges()) {
    const auto is_same = [&](const Inside& of) { return of.process == range.process && of.thread == range.thread; };
    auto found = std::find_if(held.inside.begin(), held.inside.end(), is_same);
    if (found == held.inside.end()) found = held.inside.insert(found, {range.process, range.thread, {}});
    found->sites.push_back(range.site);
  }
  std::stable_partition(held.inside.begin(), held.inside.end(),
                        [&](const Inside& of) { return std::pair(of.process, of.thread) == live.last_charged(); });
  for (const auto& [key, charged] : live.uses(held.place))
    if (charged != 0) held.parts.push_back({key.second, key.first, charged});
  std::stable_sort(held.parts.begin(), held.parts.end(),
                   [](const Share& a, const Share& b) { return a.charged > b.charged; });
  Groups groups;
  live.each_process([&](std::uint32_t process, const auto& blocks) {
    for (const auto& [address, block] : blocks) {
      if (block.place != held.place) continue;
      held.requested += block.bytes;
      groups.add(process, block);
    }
  });
  held.largest = groups.largest();
}

}  // namespace

Inspection inspect(const Recording& recording, std::optional<std::int64_t> at, const Described& described) {
  const Header& header = recording.header();
  Inspection found{overview_of(recording), {}};
  for (const Total& total : found.overview.totals) {
    Held held;
    held.place = total.place;
    held.time = at ? *at : total.peak_time;
    held.at_end = total.at_end;
    held.timeline = total.timeline.columns(kColumns);
    found.held.push_back(std::move(held));
  }
  // The places that are not described yet, in the order of the moments to describe.
  std::vector<std::size_t> open;
  for (std::size_t place = 0; place < found.held.size(); ++place)
    if (at || found.overview.totals[place].peak > 0) open.push_back(place);
  std::stable_sort(open.begin(), open.end(),
                   [&](std::size_t a, std::size_t b) { return found.held[a].time < found.held[b].time; });
  while (!open.empty()) {
    Live live(header);
    const auto describe_place = [&](std::size_t place) {
      describe(found.held[place], live, header, found.overview.marks);
      if (described) described(found.held[place], live);
      return true;
    };
    const std::size_t before = open.size();
    std::int64_t next_begins = 0;
    recording.read_near(
        found.held[open.front()].time, [&](const Event& event) { live.restore(event); },
        [&](const Event& event) {
          if (at && event.time > *at) return false;
          live.follow(event);
          if (at || event.charged == 0) return true;
          const auto described_now = std::erase_if(open, [&](std::size_t place) {
            const Total& total = found.overview.totals[place];
            return total.place == place_of(event) && total.peak_time == event.time &&
                   total.peak == live.held(total.place) && describe_place(place);
          });
          if (open.empty()) return false;
          if (described_now > 0) next_begins = recording.begins_near(found.held[open.front()].time);
          return next_begins <= event.time;  // stops if a new read_near() would begin closer to the next moment
        });
    if (open.size() != before) continue;
    std::erase_if(open, describe_place);
  }
  return found;
}

void at_times(const Recording& recording, const std::vector<std::int64_t>& times,
              const std::function<void(std::size_t, const Live&)>& visit) {
  std::size_t next = 0;
  while (next < times.size()) {
    Live live(recording.header());
    bool is_at_end = true;
    recording.read_near(
        times[next], [&](const Event& event) { live.restore(event); },
        [&](const Event& event) {
          while (next < times.size() && event.time > times[next]) {
            visit(next++, live);
            is_at_end = next < times.size() && recording.begins_near(times[next]) <= event.time;
            if (!is_at_end) return false;  // a new read_near() would begin closer to the next time
          }
          live.follow(event);
          return true;
        });
    if (!is_at_end) continue;
    while (next < times.size()) visit(next++, live);
  }
}

}  // namespace ration::trace
