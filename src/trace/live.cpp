#include "trace/live.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace ration::trace {
namespace {

/// For each use, the kind and the account of an event that charges bytes of that use. An event of shared memory is
/// recognised by its process.
constexpr std::array<std::pair<Kind, Account>, kUses> kCharges{{{Kind::kAllocate, Account::kDevice},
                                                                {Kind::kPoolGrew, Account::kDevice},
                                                                {Kind::kVirtualMap, Account::kDevice},
                                                                {Kind::kContextMade, Account::kDevice},
                                                                {Kind::kCode, Account::kDevice},
                                                                {Kind::kAllocate, Account::kManaged},
                                                                {Kind::kAllocate, Account::kDevice},
                                                                {Kind::kAllocate, Account::kPinnedHost},
                                                                {Kind::kHeldBefore, Account::kDevice}}};

}  // namespace

void Live::charge(const Event& event) {
  last_charged_ = {event.process, event.thread};
  Charges& charges = charges_[place_of(event)];
  charges.held += event.charged;
  if (event.kind == Kind::kProcessEnded)
    std::erase_if(charges.uses, [&](const auto& use) {
      return use.first.first == event.process &&
             (use.first.second == Use::kManaged) == (event.account == Account::kManaged);
    });
  else
    charges.uses[{event.process, use_of_charge(event, charges)}] += event.charged;
}

Use Live::use_of_charge(const Event& event, const Charges& charges) const {
  const Use use = use_of(event, header_);
  const bool gives_block = (use == Use::kBlocks && event.kind == Kind::kFree) || event.kind == Kind::kVirtualRelease;
  if (!gives_block || !charges.uses.contains({event.process, Use::kBefore})) return use;
  const auto blocks = blocks_.find(event.process);
  const bool is_known = blocks != blocks_.end() && blocks->second.contains(event.address);
  return is_known ? use : Use::kBefore;
}

std::vector<Event> Live::snapshot() const {
  std::vector<Event> events(1);
  events[0].kind = Kind::kMark;
  events[0].detail = marks_;
  for (const auto& [place, charges] : charges_) {
    Event rest;  // the bytes without a use: charge() enters a kProcessEnded under no use
    rest.kind = Kind::kProcessEnded;
    rest.device = place.device;
    rest.account = place.is_host ? Account::kPinnedHost : Account::kDevice;
    rest.charged = charges.held;
    const std::size_t at = events.size();
    events.push_back(rest);
    for (const auto& [key, bytes] : charges.uses) {
      Event event;
      std::tie(event.kind, event.account) = kCharges[static_cast<std::size_t>(key.second)];
      event.process = key.first;
      event.device = place.device;
      event.charged = bytes;
      events[at].charged -= bytes;
      if (bytes != 0) events.push_back(event);
    }
  }
  const auto first = static_cast<std::ptrdiff_t>(events.size());
  each_process([&](std::uint32_t process, const Blocks& blocks) {
    for (const auto& [address, block] : blocks) {
      Event event;
      event.time = block.time;
      event.kind = block.is_handle ? Kind::kVirtualCreate : Kind::kAllocate;
      event.address = address;
      event.bytes = block.bytes;
      event.process = process;
      event.site = block.site;
      event.detail = block.span;
      event.device = block.place.device;
      event.account = block.place.is_host ? Account::kPinnedHost : Account::kDevice;
      events.push_back(event);
    }
  });
  std::sort(events.begin() + first, events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.time, a.process, a.address) < std::tie(b.time, b.process, b.address);
  });
  const auto middle = static_cast<std::ptrdiff_t>(events.size());
  for (const OpenRange& range : ranges_.all()) {
    Event event;
    event.kind = Kind::kRangeBegan;
    event.time = range.time;
    event.address = range.number;
    event.process = range.process;
    event.thread = range.thread;
    event.site = range.site;
    events.push_back(event);
  }
  const auto earlier = [](const Event& a, const Event& b) { return a.time < b.time; };
  std::inplace_merge(events.begin() + first, events.begin() + middle, events.end(), earlier);
  return events;
}

void Live::restore(const Event& event) {
  if (event.kind == Kind::kMark)
    marks_ = event.detail;
  else if (event.kind == Kind::kRangeBegan)
    ranges_.follow(event);
  else if (event.address != 0)
    take(event, event.detail);
  else
    charge(event);
}

}  // namespace ration::trace
