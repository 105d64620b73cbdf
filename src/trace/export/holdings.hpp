// The memory of a recording's workload at a moment, as holdings whose bytes add up to those in its book. Used by the
// exports, because their formats have only blocks of memory. Promise: after each event the holdings of a place add up
// to the sum of all charges to that place, whatever was recorded; a negative sum counts as zero.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/event.hpp"
#include "trace/kinds.hpp"

namespace ration::trace {

/// The place of memory: the index of a device in the header, or for pinned host memory the number of devices.
using Place = std::uint16_t;
[[nodiscard]] inline Place pinned_host(const Header& header) { return static_cast<Place>(header.devices.size()); }
[[nodiscard]] inline Place place_of(const Event& event, const Header& header) {
  return event.account == Account::kPinnedHost ? pinned_host(header) : event.device;
}
/// Returns the number of places of a recording.
[[nodiscard]] inline std::size_t places(const Header& header) { return header.devices.size() + 1; }

struct Holding {
  std::uint64_t id = 0;         ///< unique; stays the same when the bytes change
  std::uint64_t bytes = 0;      ///< bytes of the account that the holding stands for
  std::uint64_t requested = 0;  ///< bytes that the program requested; for a block inside a pool they may exceed `bytes`
  std::uint64_t address = 0;    ///< address of a block
  std::uint64_t stream = 0;
  std::int64_t since = 0;  ///< time of the event that took the memory
  std::uint32_t process = 0, thread = 0, site = 0;
  Place place = 0;
  Part part = Part::kBlock;
};

/// A holding that came or went. A holding whose bytes change goes with the old bytes and comes with the new bytes.
struct Change {
  Holding holding;
  bool came = false;
};

/// The holdings after each event of a recording. Not thread-safe. Needs memory for the live blocks.
class Holdings {
 public:
  explicit Holdings(const Header& header);

  /// Applies the next event. Returns the changes, valid until the next call: first the holdings that went, then those
  /// that came. In this order no intermediate sum exceeds both the sum before the event and the sum after it.
  const std::vector<Change>& apply(const Event& event);

  /// Returns the bytes held at a place.
  [[nodiscard]] std::uint64_t held(Place place) const { return places_[place].held(); }
  /// Returns the present holdings, oldest first.
  [[nodiscard]] std::vector<Holding> live() const;

 private:
  struct Entry {
    Holding holding;
    std::uint64_t from_pool = 0;  // bytes that return to the pool when the block goes
    std::uint64_t touched = 0;    // the number of the event that changed it last
  };
  struct Owner {
    std::array<Entry, kParts> parts;  // by Part; the entry of kBlock is unused
    std::map<std::uint64_t, Entry> blocks;
    std::uint64_t bytes = 0;
  };
  struct Sum {
    std::int64_t charged = 0;
    std::uint64_t bytes = 0;  // of all holdings
    [[nodiscard]] std::uint64_t held() const { return charged > 0 ? static_cast<std::uint64_t>(charged) : 0; }
  };
  using OwnerKey = std::pair<Place, std::uint32_t>;  // place and process
  struct Found {
    Owner* owner = nullptr;
    std::uint64_t id = 0;
  };
  struct AddressKey {
    std::uint64_t address = 0;
    std::uint32_t process = 0;
    bool handle = false;
    bool operator==(const AddressKey&) const = default;
  };
  struct AddressHash {
    std::size_t operator()(const AddressKey& key) const noexcept;
  };

  void take_block(const Event& event, Owner& owner, Place place);
  void give_block(const Event& event);
  void erase(Owner& owner, std::map<std::uint64_t, Entry>::iterator block);
  void end(Owner& owner);
  void touch(Owner& owner, Entry& entry);
  void add(Owner& owner, Entry& entry, std::int64_t bytes);
  std::uint64_t reduce(Owner& owner, Part part, std::uint64_t most);
  std::uint64_t reduce_blocks(Owner& owner, std::uint64_t most);
  void balance(Place place, std::uint32_t process, Part first);
  Owner& owner_of(Place place, std::uint32_t process, const Event& event);

  std::map<OwnerKey, Owner> owners_;  // a map never moves its values, so pointers to them stay valid
  std::unordered_map<AddressKey, Found, AddressHash> addresses_;
  std::vector<Sum> places_;
  Place host_;
  std::uint64_t event_ = 0;  // the number of the present event
  std::uint64_t next_id_ = 1;
  std::int64_t now_ = 0;
  std::vector<Change> changes_;
  std::vector<std::pair<Owner*, std::pair<Part, std::uint64_t>>> touched_;  // by part, or for blocks by id
};

/// The most bytes that a place ever held.
struct Peak {
  std::uint64_t bytes = 0;
  std::int64_t time = 0;
  std::uint64_t event = 0;  ///< number of events up to the peak; 0: the place never held anything
};
/// Returns the peak of each place, in one pass over the events.
[[nodiscard]] std::vector<Peak> peaks_of(const Recording& recording);

/// Returns what was held at the peak of a place, oldest first.
[[nodiscard]] std::vector<Holding> held_at(const Recording& recording, Place place, const Peak& peak);

/// Reads all events except those by which the last processes ended. So memory that the last processes never freed is
/// still held at the end. With kEach, each place has last processes of its own, as in `ration inspect`.
enum class Ends { kEach, kTogether };
void read_unended(const Recording& recording, Ends ends, const std::function<bool(const Event&)>& take);

}  // namespace ration::trace
