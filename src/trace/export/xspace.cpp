// Writes the XSpace that TensorBoard's profile plugin (XProf) shows on its page memory_profile. The plugin's converter
// reads only a part of the format (xplane_to_memory_profile.cc, xplane_schema.cc): the events MemoryAllocation and
// MemoryDeallocation in the plane `/host:CPU`, with their statistics by name. All events are on one line and in order
// of time, because the converter takes the peak of the lifetime from the last event that it reads. The page shows
// contexts as stack, other memory as heap, and the room up to the limit as free memory, so that the capacity on the
// page is the limit. Times beyond 106 days overflow the format's picoseconds.
#include <algorithm>
#include <limits>
#include <string>

#include "trace/export/exporter.hpp"
#include "trace/export/moments.hpp"
#include "trace/export/names.hpp"
#include "trace/export/part_sums.hpp"
#include "trace/export/protobuf.hpp"

namespace ration::trace {
namespace {

enum Stat : int {
  kAllocator = 1,
  kReserved,
  kAllocated,
  kAvailable,
  kFragmentation,
  kPeakInUse,
  kRequested,
  kAllocationBytes,
  kAddress,
  kOperation,
  kGroup,
  kRegion,
  kDataType,
  kShape,
};
constexpr const char* kStats[] = {"",
                                  "allocator_name",
                                  "bytes_reserved",
                                  "bytes_allocated",
                                  "bytes_available",
                                  "fragmentation",
                                  "peak_bytes_in_use",
                                  "requested_bytes",
                                  "allocation_bytes",
                                  "addr",
                                  "tf_op",
                                  "group_id",
                                  "region_type",
                                  "data_type",
                                  "tensor_shapes"};
enum EventName : int { kAllocation = 1, kDeallocation };

/// Calls `take` with each event of the line, as a message.
template <class Take>
void each_event(const Recording& recording, Take&& take) {
  const Header& header = recording.header();
  Holdings holdings(header);
  PartSums parts(header);
  Sums sums(header);
  std::vector<std::uint64_t> peaks(places(header));
  std::vector<std::string> names;
  for (Place place = 0; place < places(header); ++place) names.push_back(name_of_place(header, place));
  Message event, stat;
  const auto add = [&](Stat name, auto&& value) {
    stat.clear();
    stat.number(1, static_cast<int>(name));
    value();
    event.message(4, stat);
  };
  recording.read([&](const Event& recorded) {
    const auto& changes = holdings.apply(recorded);
    (void)sums.apply(recorded);
    const std::int64_t most_ns = std::numeric_limits<std::int64_t>::max() / 1000;
    for (const Change& change : changes) {
      parts.apply(change);
      const Holding& holding = change.holding;
      const Place place = holding.place;
      const std::uint64_t held = parts.of(place), reserved = parts.of(place, Part::kContext);
      peaks[place] = std::max(peaks[place], held);
      const std::uint64_t limit = sums.limit(place).value_or(0);
      const bool is_context = holding.part == Part::kContext;  // the page shows contexts as stack
      const Frame frame = frames_of(header, holding).front();
      event.clear();
      event.number(1, change.came ? kAllocation : kDeallocation);
      event.number(2, std::min(recorded.time, most_ns) * 1000);
      add(kAllocator, [&] { stat.text(5, names[place]); });
      add(kReserved, [&] { stat.number(4, reserved); });
      add(kAllocated, [&] { stat.number(4, held - reserved); });
      add(kAvailable, [&] { stat.number(4, limit > held ? limit - held : 0); });
      add(kFragmentation, [&] { stat.real(2, 0); });
      add(kPeakInUse, [&] { stat.number(4, peaks[place]); });
      add(kRequested, [&] { stat.number(4, is_context ? 0 : holding.requested); });
      add(kAllocationBytes, [&] { stat.number(4, is_context ? 0 : holding.bytes); });
      add(kAddress, [&] { stat.number(4, holding.id); });  // an id, since processes may use the same addresses
      add(kOperation, [&] { stat.text(5, frame.function); });
      add(kGroup, [&] { stat.number(4, 1); });
      add(kRegion, [&] { stat.text(5, name_of(holding.part)); });
      add(kDataType, [&] { stat.number(4, 0); });
      take(event.bytes());
    }
    return true;
  });
}

}  // namespace

void write_xspace(const Recording& recording, std::ostream& out) {
  constexpr int kEventField = 4, kLineField = 3, kPlaneField = 1;
  Message line, plane;
  line.number(1, 1).text(2, "memory").number(3, 0);
  plane.number(1, 1).text(2, "/host:CPU");
  for (const auto& [number, name] : {std::pair{kAllocation, "MemoryAllocation"}, {kDeallocation, "MemoryDeallocation"}})
    plane.message(4, Message{}.number(1, number).message(2, Message{}.number(1, number).text(2, name)));
  for (int stat = kAllocator; stat <= kShape; ++stat)
    plane.message(5, Message{}.number(1, stat).message(2, Message{}.number(1, stat).text(2, kStats[stat])));
  // The length of the line comes before its events. There are too many events to keep, so they are made twice: to add
  // up the length, and to write them.
  std::uint64_t length = line.bytes().size();
  each_event(recording, [&](const std::string& event) {
    length += Message{}.opened(kEventField, event.size()).bytes().size() + event.size();
  });
  const std::string opened = Message{}.opened(kLineField, length).bytes();
  out << Message{}.opened(kPlaneField, plane.bytes().size() + opened.size() + length).bytes() << plane.bytes() << opened
      << line.bytes();
  each_event(recording,
             [&](const std::string& event) { out << Message{}.opened(kEventField, event.size()).bytes() << event; });
}

}  // namespace ration::trace
