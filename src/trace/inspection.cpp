#include "trace/inspection.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <unordered_map>

namespace ration::trace {
namespace {

constexpr std::size_t kMostGroups = 20;

struct BlockKey {
  std::uint64_t address;
  std::uint32_t process;
  bool operator==(const BlockKey&) const = default;
};
struct BlockHash {
  std::size_t operator()(const BlockKey& key) const noexcept {
    return (key.address ^ std::uint64_t{key.process} << 48) * 0x9e3779b97f4a7c15;
  }
};
struct Block {
  std::uint64_t bytes;
  std::int64_t time;
  std::uint32_t site;
  std::uint32_t span;  ///< number of marks before it
  Place place;
};

/// Alike blocks while they are counted.
class Groups {
 public:
  void add(std::uint32_t process, const Block& block) {
    Counted& counted = groups_[{process, block.site, block.bytes}];
    Group& group = counted.group;
    if (group.count == 0) {
      group = {process, block.site, block.bytes, 0, block.time, block.time, 0};
    }
    ++group.count;
    group.first = std::min(group.first, block.time);
    group.last = std::max(group.last, block.time);
    counted.spans.insert(block.span);
  }
  [[nodiscard]] std::vector<Group> largest() const {
    std::vector<Group> all;
    for (const auto& [key, counted] : groups_) {
      all.push_back(counted.group);
      all.back().marks = counted.spans.size();
    }
    std::stable_sort(all.begin(), all.end(), [](const Group& a, const Group& b) { return a.total() > b.total(); });
    if (all.size() > kMostGroups) all.resize(kMostGroups);
    return all;
  }

 private:
  struct Counted {
    Group group;
    std::set<std::uint32_t> spans;
  };
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>, Counted> groups_;
};

/// Takes blocks and returns them: `taken(key, block)`, `freed(block, time)`, `left(key, block)` at its process's end.
class LiveBlocks {
 public:
  template <typename Freed, typename Left>
  void follow(const Event& event, std::uint32_t span, Freed&& freed, Left&& left) {
    switch (event.kind) {
      case Kind::kAllocate:
      case Kind::kVirtualCreate:
        if (event.address != 0)
          blocks_[{event.address, event.process}] = {event.bytes, event.time, event.site, span, place_of(event)};
        return;
      case Kind::kFree:
      case Kind::kVirtualRelease:
        if (const auto found = blocks_.find({event.address, event.process}); found != blocks_.end()) {
          freed(found->second, event.time);
          blocks_.erase(found);
        }
        return;
      case Kind::kProcessEnded:
        for (auto block = blocks_.begin(); block != blocks_.end();) {
          if (block->first.process != event.process) {
            ++block;
            continue;
          }
          left(block->first.process, block->second);
          block = blocks_.erase(block);
        }
        return;
      default:
        return;
    }
  }
  template <typename Visit>
  void each(Visit&& visit) const {
    for (const auto& [key, block] : blocks_) visit(key.process, block);
  }

 private:
  std::unordered_map<BlockKey, Block, BlockHash> blocks_;
};

/// Sizes and lifetimes by powers of two.
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
      SizeClass one{at == 0 ? 0 : std::uint64_t{1} << (at - 1), row.count, 0, row.bytes, 0};
      for (const std::uint64_t number : row.lifetimes) one.freed += number;
      std::uint64_t below = 0;
      for (std::size_t bits = 0; bits < row.lifetimes.size() && one.freed > 0; ++bits) {
        below += row.lifetimes[bits];
        if (2 * below < one.freed) continue;
        one.middle_lifetime =
            bits == 0 ? 0 : static_cast<std::int64_t>(std::uint64_t{1} << std::min<std::size_t>(bits - 1, 62));
        break;
      }
      all.push_back(one);
    }
    return all;
  }

 private:
  /// The class of the sizes above 2^(n-2) and up to 2^(n-1).
  static std::size_t class_of(std::uint64_t bytes) {
    return bytes == 0 ? 0 : static_cast<std::size_t>(std::bit_width(bytes - 1)) + 1;
  }
  struct Row {
    std::uint64_t count = 0, bytes = 0;
    std::array<std::uint64_t, 65> lifetimes{};
  };
  std::array<Row, 66> rows_{};
};

/// Charged bytes of a place by use and process.
using Parts = std::map<std::pair<std::uint32_t, Use>, std::int64_t>;

struct PlaceState {
  std::int64_t held = 0, peak = 0, peak_time = 0, most_at_end = 0;
  std::uint64_t peak_event = 0;
  Parts parts;
};

void follow(std::map<Place, PlaceState>& places, const Event& event, const Header& header) {
  if (event.charged == 0) return;
  PlaceState& place = places[place_of(event)];
  place.held += event.charged;
  if (event.kind == Kind::kProcessEnded)
    std::erase_if(place.parts, [&](const auto& part) {
      return part.first.first == event.process &&
             (part.first.second == Use::kManaged) == (event.account == Account::kManaged);
    });
  else
    place.parts[{event.process, use_of(event, header)}] += event.charged;
}

}  // namespace

const char* name_of(Use use) {
  constexpr std::array<const char*, kUses> kNames{"blocks", "pools",   "virtual", "contexts",
                                                  "code",   "managed", "shared",  "pinned host"};
  return kNames[static_cast<std::size_t>(use)];
}

Use use_of(const Event& event, const Header& header) {
  if (event.account == Account::kPinnedHost) return Use::kHost;
  if (event.account == Account::kManaged) return Use::kManaged;
  if (event.process < header.processes.size() && header.processes[event.process].pid == 0 && header.booked)
    return Use::kShared;
  switch (event.kind) {
    case Kind::kContextMade:
    case Kind::kContextEnded:
      return Use::kContexts;
    case Kind::kPoolGrew:
    case Kind::kPoolTrimmed:
    case Kind::kGraph:  // graphs have pools of their own
      return Use::kPools;
    case Kind::kVirtualCreate:
    case Kind::kVirtualRelease:
    case Kind::kVirtualMap:
    case Kind::kVirtualUnmap:
      return Use::kVirtual;
    case Kind::kCode:
      return Use::kCode;
    default:
      return Use::kBlocks;
  }
}

Inspection inspect(const Recording& recording, std::optional<std::int64_t> at) {
  const Header& header = recording.header();
  Inspection found;
  std::map<Place, PlaceState> places;
  LiveBlocks blocks;
  Groups never_freed;
  Sizes sizes;
  std::map<std::pair<std::uint32_t, Asked>, Asking> asked;
  std::uint32_t span = 0;
  const auto freed = [&](const Block& block, std::int64_t time) { sizes.freed(block.bytes, time - block.time); };
  const auto left = [&](std::uint32_t process, const Block& block) { never_freed.add(process, block); };
  recording.read([&](const Event& event) {
    ++found.events;
    found.length = event.time;
    follow(places, event, header);
    if (event.charged != 0) {
      PlaceState& place = places[place_of(event)];
      if (place.held > place.peak) {
        place.peak = place.held;
        place.peak_time = event.time;
        place.peak_event = found.events;
      }
      if (event.kind != Kind::kProcessEnded) place.most_at_end = place.held;
    }
    blocks.follow(event, span, freed, left);
    switch (event.kind) {
      case Kind::kAllocate:
      case Kind::kVirtualCreate:
        if (event.address != 0) sizes.took(event.bytes);
        break;
      case Kind::kDenied:
      case Kind::kRefused:
        if (++found.denial_count <= kMostDenials)
          found.denials.push_back({event.time, event.kind, place_of(event), event.process, event.site, event.bytes,
                                   event.detail, places[place_of(event)].held});
        break;
      case Kind::kAsked: {
        Asking& asking = asked[{event.process, static_cast<Asked>(event.detail)}];
        if (asking.times++ == 0)
          asking = {event.process, static_cast<Asked>(event.detail), 1, event.bytes, event.bytes};
        asking.least = std::min(asking.least, event.bytes);
        asking.most = std::max(asking.most, event.bytes);
        break;
      }
      case Kind::kMark:
        ++span;
        found.marks.emplace_back(event.time, event.site < header.sites.size() ? header.sites[event.site] : "");
        break;
      default:
        break;
    }
    return true;
  });
  blocks.each(left);  // of processes whose end was not recorded
  found.never_freed = never_freed.largest();
  found.sizes = sizes.classes();
  for (const auto& [key, asking] : asked) found.asked.push_back(asking);

  // The second time up to each moment of interest.
  std::map<Place, PlaceState> again;
  LiveBlocks live;
  std::uint64_t number = 0;
  std::string mark;
  std::map<Place, Held> described;
  const auto describe = [&](const Place& place) {
    Held& held = described[place];
    const PlaceState& state = again[place];
    held.place = place;
    held.charged = state.held;
    held.mark = mark;
    for (const auto& [key, charged] : state.parts)
      if (charged != 0) held.parts.push_back({key.second, key.first, charged});
    std::stable_sort(held.parts.begin(), held.parts.end(),
                     [](const Part& a, const Part& b) { return a.charged > b.charged; });
    Groups groups;
    live.each([&](std::uint32_t process, const Block& block) {
      if (block.place != place) return;
      held.requested += block.bytes;
      groups.add(process, block);
    });
    held.largest = groups.largest();
  };
  std::map<Place, std::vector<std::int64_t>> timelines;
  for (const auto& [place, state] : places) timelines[place].assign(kColumns, 0);
  const auto column = [&](std::int64_t time) {
    return std::min(kColumns - 1, static_cast<std::size_t>(static_cast<double>(time) /
                                                           static_cast<double>(found.length + 1) * kColumns));
  };
  std::size_t reached = 0;
  std::uint32_t spans = 0;
  const auto ignore = [](const auto&, const auto&) {};
  recording.read([&](const Event& event) {
    ++number;
    if (at && event.time > *at && described.empty())
      for (const auto& [place, state] : places) describe(place);
    if (event.kind == Kind::kMark) {
      mark = found.marks[std::min<std::size_t>(spans, found.marks.size() - 1)].second;
      ++spans;
    }
    for (const std::size_t now = column(event.time); reached < now;) {
      ++reached;
      for (auto& [place, timeline] : timelines) timeline[reached] = again[place].held;
    }
    follow(again, event, header);
    live.follow(event, spans, ignore, ignore);
    if (event.charged != 0) {
      const Place place = place_of(event);
      const PlaceState& total = places[place];
      std::int64_t& most = timelines[place][reached];
      most = std::max(most, again[place].held);
      if (!at && number == total.peak_event) describe(place);
    }
    return true;
  });
  for (const auto& [place, state] : places) {
    if (described.find(place) == described.end()) describe(place);
    Held& held = described[place];
    held.time = at ? *at : state.peak_time;
    held.at_end = state.most_at_end;
    held.timeline = std::move(timelines[place]);
    found.held.push_back(std::move(held));
  }
  return found;
}

}  // namespace ration::trace
