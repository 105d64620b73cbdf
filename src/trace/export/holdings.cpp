#include "trace/export/holdings.hpp"

#include <algorithm>
#include <limits>

namespace ration::trace {
namespace {

bool is_handle(Kind kind) { return kind == Kind::kVirtualCreate || kind == Kind::kVirtualRelease; }

std::uint64_t positive(std::int64_t value) { return value > 0 ? static_cast<std::uint64_t>(value) : 0; }

}  // namespace

std::size_t Holdings::AddressHash::operator()(const AddressKey& key) const noexcept {
  std::uint64_t mixed = (key.address ^ std::uint64_t{key.process} << 1 ^ key.handle) * 0x9e3779b97f4a7c15u;
  return static_cast<std::size_t>(mixed ^ mixed >> 32);
}

Holdings::Holdings(const Header& header) : places_(places(header)), host_(pinned_host(header)) {}

Holdings::Owner& Holdings::owner_of(Place place, std::uint32_t process, const Event& event) {
  const auto [at, is_new] = owners_.try_emplace({place, process});
  if (is_new) {
    for (std::size_t part = 0; part < kParts; ++part) {
      Holding& holding = at->second.parts[part].holding;
      holding.id = next_id_++;
      holding.process = process;
      holding.thread = event.thread;
      holding.place = place;
      holding.part = static_cast<Part>(part);
    }
  }
  return at->second;
}

// Notes that the present event changes an entry, and records the entry's old value.
void Holdings::touch(Owner& owner, Entry& entry) {
  if (entry.touched == event_) return;
  entry.touched = event_;
  const bool is_block = entry.holding.part == Part::kBlock;
  if (is_block || entry.holding.bytes > 0) changes_.push_back({entry.holding, false});
  touched_.push_back({&owner, {entry.holding.part, entry.holding.id}});
}

void Holdings::add(Owner& owner, Entry& entry, std::int64_t bytes) {
  if (bytes == 0) return;
  touch(owner, entry);
  const auto change = static_cast<std::uint64_t>(bytes);  // a negative change wraps around, as the unsigned sums do
  entry.holding.bytes += change;
  if (entry.holding.part != Part::kBlock) {
    entry.holding.requested = entry.holding.bytes;
    entry.holding.since = now_;
  }
  owner.bytes += change;
  places_[entry.holding.place].bytes += change;
}

std::uint64_t Holdings::reduce(Owner& owner, Part part, std::uint64_t most) {
  Entry& entry = owner.parts[static_cast<std::size_t>(part)];
  const std::uint64_t bytes = std::min(entry.holding.bytes, most);
  add(owner, entry, -static_cast<std::int64_t>(bytes));
  return bytes;
}

std::uint64_t Holdings::reduce_blocks(Owner& owner, std::uint64_t most) {
  std::uint64_t reduced = 0;
  for (auto block = owner.blocks.rbegin(); block != owner.blocks.rend() && reduced < most; ++block) {
    const std::uint64_t bytes = std::min(block->second.holding.bytes, most - reduced);
    block->second.from_pool -= std::min(block->second.from_pool, bytes);
    add(owner, block->second, -static_cast<std::int64_t>(bytes));
    reduced += bytes;
  }
  return reduced;
}

void Holdings::erase(Owner& owner, std::map<std::uint64_t, Entry>::iterator block) {
  Entry& entry = block->second;
  touch(owner, entry);
  const std::uint64_t bytes = entry.holding.bytes, from_pool = std::min(entry.from_pool, bytes);
  owner.bytes -= bytes;
  places_[entry.holding.place].bytes -= bytes;
  owner.blocks.erase(block);
  add(owner, owner.parts[static_cast<std::size_t>(Part::kPool)], static_cast<std::int64_t>(from_pool));
}

void Holdings::take_block(const Event& event, Owner& owner, Place place) {
  const AddressKey key{event.address, event.process, is_handle(event.kind)};
  if (const auto stale = addresses_.find(key); stale != addresses_.end()) {  // the stale block's end was not recorded
    const Found found = stale->second;
    erase(*found.owner, found.owner->blocks.find(found.id));
  }
  const std::uint64_t charged = positive(event.charged);
  std::uint64_t bytes = event.bytes == 0 ? charged : std::min(event.bytes, charged), from_pool = 0;
  if (event.account == Account::kDevice && bytes < event.bytes) {
    // The block lies in memory that was charged before: in a pool of the driver, or in a granule of an earlier block.
    from_pool = reduce(owner, Part::kPool, event.bytes - bytes);
    bytes += from_pool;
    bytes += reduce(owner, Part::kRest, event.bytes - bytes);
  }
  Entry entry;
  entry.holding = {next_id_++,   0,          event.bytes, event.address, event.stream, event.time, event.process,
                   event.thread, event.site, place,       Part::kBlock};
  entry.from_pool = from_pool;
  entry.touched = event_;
  Entry& kept = owner.blocks.emplace(entry.holding.id, entry).first->second;
  touched_.push_back({&owner, {Part::kBlock, kept.holding.id}});
  addresses_[key] = {&owner, kept.holding.id};
  add(owner, kept, static_cast<std::int64_t>(bytes));
}

void Holdings::give_block(const Event& event) {
  const auto found = addresses_.find({event.address, event.process, is_handle(event.kind)});
  if (found == addresses_.end()) return;  // taken before the recording began, or imported
  Owner& owner = *found->second.owner;
  erase(owner, owner.blocks.find(found->second.id));
  addresses_.erase(found);
}

void Holdings::end(Owner& owner) {
  while (!owner.blocks.empty()) {
    const auto block = owner.blocks.begin();
    const Holding& holding = block->second.holding;
    for (const bool handle : {false, true}) {
      const auto found = addresses_.find({holding.address, holding.process, handle});
      if (found != addresses_.end() && found->second.id == holding.id) addresses_.erase(found);
    }
    erase(owner, block);
  }
  for (std::size_t part = 1; part < kParts; ++part)
    (void)reduce(owner, static_cast<Part>(part), std::numeric_limits<std::uint64_t>::max());
}

// Makes the holdings of a place add up to its charges. Adds charged bytes that have no block to the part `first` of the
// process. If bytes were refunded although no block ended, takes them from the part `first`, then from other parts,
// then from the newest blocks.
void Holdings::balance(Place place, std::uint32_t process, Part first) {
  const Sum& sum = places_[place];
  Owner& own = owners_.at({place, process});
  if (sum.bytes < sum.held()) {
    add(own, own.parts[static_cast<std::size_t>(first)], static_cast<std::int64_t>(sum.held() - sum.bytes));
    return;
  }
  const auto excess = [&] { return sum.bytes - std::min(sum.bytes, sum.held()); };
  if (excess() > 0) reduce(own, first, excess());
  const auto reduce_parts = [&](Owner& owner) {
    for (const Part part : {Part::kRest, Part::kPool, Part::kGraph, Part::kCode, Part::kContext})
      if (excess() > 0) reduce(owner, part, excess());
  };
  reduce_parts(own);
  if (excess() == 0) return;
  const auto begin = owners_.lower_bound({place, 0});
  const auto for_all = [&](const auto& change) {
    for (auto at = begin; at != owners_.end() && at->first.first == place && excess() > 0; ++at) change(at->second);
  };
  for_all(reduce_parts);
  if (excess() > 0) reduce_blocks(own, excess());
  for_all([&](Owner& owner) { reduce_blocks(owner, excess()); });
}

const std::vector<Change>& Holdings::apply(const Event& event) {
  ++event_;
  now_ = event.time;
  changes_.clear();
  touched_.clear();
  const Place place = std::min<Place>(event.account == Account::kPinnedHost ? host_ : event.device, host_);
  Owner& owner = owner_of(place, event.process, event);
  places_[place].charged += event.charged;
  switch (event.kind) {
    case Kind::kAllocate:
    case Kind::kVirtualCreate:
      take_block(event, owner, place);
      break;
    case Kind::kFree:
    case Kind::kVirtualRelease:
      give_block(event);
      break;
    case Kind::kContextEnded:
      if (positive(-event.charged) < owner.bytes) break;  // the process has another context
      [[fallthrough]];
    case Kind::kProcessEnded:
      end(owner);
      break;
    default:
      break;
  }
  balance(place, event.process, part_of(event.kind));
  for (const auto& [whose, which] : touched_) {
    if (which.first != Part::kBlock) {
      const Holding& holding = whose->parts[static_cast<std::size_t>(which.first)].holding;
      if (holding.bytes > 0) changes_.push_back({holding, true});
    } else if (const auto block = whose->blocks.find(which.second); block != whose->blocks.end()) {
      changes_.push_back({block->second.holding, true});
    }
  }
  return changes_;
}

std::vector<Holding> Holdings::live() const {
  std::vector<Holding> live;
  for (const auto& [key, owner] : owners_) {
    for (const Entry& entry : owner.parts)
      if (entry.holding.bytes > 0) live.push_back(entry.holding);
    for (const auto& [id, entry] : owner.blocks) live.push_back(entry.holding);
  }
  std::sort(live.begin(), live.end(), [](const Holding& left, const Holding& right) {
    return std::pair{left.since, left.id} < std::pair{right.since, right.id};
  });
  return live;
}

std::vector<Peak> peaks_of(const Recording& recording) {
  const Header& header = recording.header();
  std::vector<std::int64_t> held(places(header));
  std::vector<Peak> peaks(held.size());
  std::uint64_t number = 0;
  recording.read([&](const Event& event) {
    ++number;
    const Place place = place_of(event, header);
    if (place >= held.size()) return true;
    held[place] += event.charged;
    if (positive(held[place]) > peaks[place].bytes) peaks[place] = {positive(held[place]), event.time, number};
    return true;
  });
  return peaks;
}

std::vector<Holding> held_at(const Recording& recording, Place place, const Peak& peak) {
  Holdings holdings(recording.header());
  std::uint64_t number = 0;
  if (peak.event > 0) {
    recording.read([&](const Event& event) {
      holdings.apply(event);
      return ++number < peak.event;
    });
  }
  std::vector<Holding> held = holdings.live();
  std::erase_if(held, [&](const Holding& holding) { return holding.place != place; });
  return held;
}

void read_unended(const Recording& recording, Ends ends, const std::function<bool(const Event&)>& take) {
  const Header& header = recording.header();
  std::vector<std::vector<Event>> ended(places(header));  // held back until another event follows
  recording.read([&](const Event& event) {
    const Place place = ends == Ends::kTogether ? Place{0} : std::min(place_of(event, header), pinned_host(header));
    if (event.kind == Kind::kProcessEnded) {
      ended[place].push_back(event);
      return true;
    }
    for (const Event& each : ended[place])
      if (!take(each)) return false;
    ended[place].clear();
    return take(event);
  });
}

}  // namespace ration::trace
