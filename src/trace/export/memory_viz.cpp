// Writes a snapshot of PyTorch's memory viewer (pytorch.org/memory_viz, torch/cuda/_memory_viz.py). Every holding
// becomes a segment with one block, since the viewer knows only blocks inside segments. Pinned host memory becomes a
// further device.
#include <map>
#include <tuple>

#include "trace/export/exporter.hpp"
#include "trace/export/holdings.hpp"
#include "trace/export/names.hpp"
#include "trace/export/pickle.hpp"

namespace ration::trace {
namespace {

/// Returns an address below 2^53, because JavaScript represents whole numbers exactly only up to there. Blocks of
/// different processes get different addresses, and a holding without an address gets one above all blocks.
std::uint64_t address_of(const Holding& holding) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 53;
  if (holding.part == Part::kBlock) return (holding.address + (std::uint64_t{holding.process} << 48)) % (kMost >> 1);
  const std::uint64_t owner =
      (std::uint64_t{holding.process} * 16 + holding.place) * kParts + static_cast<std::uint64_t>(holding.part);
  return (kMost >> 1) + (owner << 38) % (kMost >> 1);
}

class SnapshotWriter {
 public:
  SnapshotWriter(const Recording& recording, std::ostream& out) : header_(recording.header()), out_(out), pickle_(out) {
    pickle_.begin_dict();
    pickle_.key("segments");
    write_segments(recording);
    pickle_.key("device_traces");
    Pickle::List devices(pickle_);
    for (Place place = 0; place < places(header_); ++place) {
      devices.item();
      write_trace(recording, place);
    }
    devices.end();
    pickle_.end_dict();
    pickle_.end();
  }

 private:
  void field(const char* name, std::uint64_t value) { pickle_.key(name).number(value); }

  void write_segments(const Recording& recording) {
    Holdings holdings(header_);
    read_unended(recording, Ends::kEach, [&](const Event& event) {
      holdings.apply(event);
      return true;
    });
    Pickle::List segments(pickle_);
    for (const Holding& holding : holdings.live()) {
      if (holding.bytes == 0) continue;
      segments.item();
      pickle_.begin_dict();
      field("device", holding.place);
      field("address", address_of(holding));
      for (const char* size : {"total_size", "allocated_size", "active_size"}) field(size, holding.bytes);
      field("requested_size", holding.requested);
      field("stream", holding.stream);
      pickle_.key("segment_type").text("large");
      pickle_.key("is_expandable").no();
      write_frames(holding);
      pickle_.key("blocks");
      Pickle::List blocks(pickle_);
      blocks.item();
      pickle_.begin_dict();
      field("address", address_of(holding));
      field("size", holding.bytes);
      field("requested_size", holding.requested);
      pickle_.key("state").text("active_allocated");
      write_frames(holding);
      pickle_.end_dict();
      blocks.end();
      pickle_.end_dict();
    }
    segments.end();
  }

  void write_trace(const Recording& recording, Place place) {
    Pickle::List entries(pickle_);
    Holdings holdings(header_);
    read_unended(recording, Ends::kEach, [&](const Event& event) {
      for (const auto& [holding, came] : holdings.apply(event)) {
        if (holding.place != place || holding.bytes == 0) continue;
        if (came) {
          for (const char* action : {"segment_alloc", "alloc"}) write_entry(entries, action, holding, event.time);
        } else {
          for (const char* action : {"free_requested", "free_completed", "segment_free"})
            write_entry(entries, action, holding, event.time);
        }
      }
      return out_.good();
    });
    entries.end();
  }

  void write_entry(Pickle::List& entries, const char* action, const Holding& holding, std::int64_t time) {
    entries.item();
    pickle_.begin_dict();
    pickle_.key("action").text(action);
    field("addr", address_of(holding));
    field("size", holding.bytes);
    field("stream", holding.stream);
    field("time_us", static_cast<std::uint64_t>(header_.began / 1000 + time / 1000));
    write_frames(holding);
    pickle_.end_dict();
  }

  /// Writes the calls of a holding the first time, and afterwards only the number of their list.
  void write_frames(const Holding& holding) {
    pickle_.key("frames");
    const auto number = static_cast<std::uint32_t>(known_.size());
    const auto [found, is_new] =
        known_.try_emplace({holding.place, holding.process, holding.part, holding.site}, number);
    if (!is_new) return pickle_.recall(found->second);
    Pickle::List frames(pickle_);
    for (const Frame& frame : frames_of(header_, holding)) {
      frames.item();
      pickle_.begin_dict();
      pickle_.key("name").text(frame.function);
      pickle_.key("filename").text(frame.file);
      field("line", static_cast<std::uint64_t>(frame.line < 0 ? 0 : frame.line));
      pickle_.end_dict();
    }
    frames.end();
    pickle_.remember(found->second);
  }

  const Header& header_;
  std::ostream& out_;
  Pickle pickle_;
  std::map<std::tuple<Place, std::uint32_t, Part, std::uint32_t>, std::uint32_t> known_;  // numbers of lists of frames
};

}  // namespace

void write_memory_viz(const Recording& recording, std::ostream& out) { SnapshotWriter(recording, out); }

}  // namespace ration::trace
