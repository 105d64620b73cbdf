#include "trace/overview.hpp"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

namespace ration::trace {
namespace {

void keep_largest(std::vector<Group>& groups, std::size_t most = Groups::kMostGroups) {
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.total() > b.total(); });
  if (groups.size() > most) groups.resize(most);
}

/// The sizes and lifetimes of blocks, counted by powers of two.
class Sizes {
 public:
  void took(std::uint64_t bytes) {
    Row& row = rows_[class_of(bytes)];
    ++row.count;
    row.bytes += bytes;
  }
  void freed(std::uint64_t bytes, std::int64_t lifetime) {
    ++rows_[class_of(bytes)].lifetimes[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(lifetime)))];
  }
  [[nodiscard]] std::vector<SizeClass> classes() const {
    std::vector<SizeClass> all;
    for (std::size_t at = 0; at < rows_.size(); ++at) {
      const Row& row = rows_[at];
      if (row.count == 0) continue;
      const std::uint64_t up_to = at == 0 ? 0 : at > 64 ? UINT64_MAX : std::uint64_t{1} << (at - 1);
      SizeClass one{up_to, row.count, 0, row.bytes, 0};
      for (const std::uint64_t number : row.lifetimes) one.freed += number;
      std::uint64_t below = 0;
      for (std::size_t bits = 0; bits < row.lifetimes.size() && one.freed > 0; ++bits) {
        below += row.lifetimes[bits];
        if (2 * below < one.freed) continue;
        one.middle_lifetime =
            bits == 0 ? 0 : static_cast<std::int64_t>(std::uint64_t{1} << std::min<std::size_t>(bits, 62));
        break;
      }
      all.push_back(one);
    }
    return all;
  }

 private:
  /// Returns the class of a size: n for sizes above 2^(n-2) and up to 2^(n-1), and 0 for 0.
  static std::size_t class_of(std::uint64_t bytes) {
    return bytes == 0 ? 0 : static_cast<std::size_t>(std::bit_width(bytes - 1)) + 1;
  }
  struct Row {
    std::uint64_t count = 0, bytes = 0;
    std::array<std::uint64_t, 65> lifetimes{};
  };
  std::array<Row, 66> rows_{};
};

}  // namespace

void Groups::add(std::uint32_t process, const Block& block) {
  Counted& counted = groups_[{process, block.site, block.bytes}];
  Group& group = counted.group;
  if (group.count == 0) group = {process, block.site, block.bytes, 0, block.time, block.time, 0};
  ++group.count;
  group.first = std::min(group.first, block.time);
  group.last = std::max(group.last, block.time);
  counted.spans.push_back(block.span);
}

std::vector<Group> Groups::largest(std::size_t most) const {
  std::vector<Group> all;
  for (const auto& [key, counted] : groups_) all.push_back(counted.group);
  keep_largest(all, most);
  for (Group& group : all) {
    std::vector<std::uint32_t> spans = groups_.at({group.process, group.site, group.bytes}).spans;
    std::sort(spans.begin(), spans.end());
    group.marks = static_cast<std::uint64_t>(std::unique(spans.begin(), spans.end()) - spans.begin());
  }
  return all;
}

void Timeline::add(std::int64_t time, std::int64_t before, std::int64_t after) {
  if (most.empty()) most.push_back(before);
  while (static_cast<std::size_t>(time / span) >= kMostSpans) {
    for (std::size_t at = 0; at < most.size(); at += 2)
      most[at / 2] = at + 1 < most.size() ? std::max(most[at], most[at + 1]) : most[at];
    most.resize((most.size() + 1) / 2);
    span *= 2;
  }
  const auto at = static_cast<std::size_t>(time / span);
  if (at >= most.size()) most.resize(at + 1, before);
  most[at] = std::max(most[at], after);
}

std::vector<std::int64_t> Timeline::columns(std::size_t count) const {
  std::vector<std::int64_t> columns(count, 0);
  for (std::size_t column = 0; column < count && !most.empty(); ++column) {
    const std::size_t from = column * most.size() / count;
    const std::size_t to = std::max(from + 1, (column + 1) * most.size() / count);
    columns[column] = *std::max_element(most.begin() + static_cast<std::ptrdiff_t>(from),
                                        most.begin() + static_cast<std::ptrdiff_t>(to));
  }
  return columns;
}

struct OverviewBuilder::State {
  explicit State(const Header& header) : live(header) {}

  Overview overview;
  Live live;
  std::map<Place, Total> totals;
  Sizes sizes;
  std::map<std::pair<std::uint32_t, Asked>, Asking> asked;
  Total* last = nullptr;  ///< the total that the last charge changed

  Total& total_of(const Event& event) {
    const Place place = place_of(event);
    if (last == nullptr || last->place != place) {
      last = &totals[place];
      last->place = place;
    }
    return *last;
  }
  void add(const Event& event);
  void leave(std::uint32_t process, const auto& blocks) {
    Groups groups;
    for (const auto& [address, block] : blocks) groups.add(process, block);
    for (const Group& group : groups.largest()) overview.never_freed.push_back(group);
    keep_largest(overview.never_freed);
  }
};

void OverviewBuilder::State::add(const Event& event) {
  ++overview.events;
  overview.length = event.time;
  live.follow(
      event, [&](const Block& block) { sizes.freed(block.bytes, event.time - block.time); },
      [&](std::uint32_t process, const auto& blocks) { leave(process, blocks); });
  if (event.charged != 0) {
    Total& total = total_of(event);
    const std::int64_t held = live.held(total.place);
    if (held > total.peak) {
      total.peak = held;
      total.peak_time = event.time;
    }
    if (event.kind != Kind::kProcessEnded) total.at_end = held;
    total.timeline.add(event.time, held - event.charged, held);
  }
  switch (event.kind) {
    case Kind::kAllocate:
    case Kind::kVirtualCreate:
      if (event.address != 0) sizes.took(event.bytes);
      break;
    case Kind::kDenied:
    case Kind::kRefused:
      if (++overview.denial_count <= kMostDenials)
        overview.denials.push_back({event.time, event.kind, place_of(event), event.process, event.site, event.bytes,
                                    event.detail, live.held(total_of(event).place)});
      break;
    case Kind::kAsked: {
      Asking& asking = asked[{event.process, static_cast<Asked>(event.detail)}];
      if (asking.times++ == 0) asking = {event.process, static_cast<Asked>(event.detail), 1, event.bytes, event.bytes};
      asking.least = std::min(asking.least, event.bytes);
      asking.most = std::max(asking.most, event.bytes);
      break;
    }
    case Kind::kMark:
      overview.marks.push_back({event.time, event.site});
      break;
    default:
      break;
  }
}

OverviewBuilder::OverviewBuilder(const Header& header) : state_(std::make_unique<State>(header)) {}
OverviewBuilder::~OverviewBuilder() = default;
void OverviewBuilder::add(const Event& event) { state_->add(event); }
const Live& OverviewBuilder::live() const { return state_->live; }

Overview OverviewBuilder::finish() {
  State& state = *state_;
  // Ends the processes whose end was not recorded.
  state.live.each_process([&](std::uint32_t process, const auto& blocks) { state.leave(process, blocks); });
  for (auto& [place, total] : state.totals) {
    const std::int64_t held = state.live.held(place);
    total.timeline.add(state.overview.length, held, held);
    state.overview.totals.push_back(std::move(total));
  }
  state.overview.sizes = state.sizes.classes();
  for (const auto& [key, asking] : state.asked) state.overview.asked.push_back(asking);
  return std::move(state.overview);
}

}  // namespace ration::trace
