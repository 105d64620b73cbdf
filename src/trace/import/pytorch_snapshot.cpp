#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "trace/import/imported.hpp"
#include "trace/import/importers.hpp"
#include "trace/import/plain_data.hpp"

namespace ration::trace {
namespace {

using Value = PlainData::Value;

constexpr std::size_t kMostFrames = 64, kMostDevices = 64;
constexpr std::uint32_t kOutOfMemory = 2;  // cudaErrorMemoryAllocation
constexpr std::int64_t kMicrosecond = 1000;

/// Returns a count, such as bytes; 0 if it is negative or more than any GPU has.
std::uint64_t count_in(const Value& value) {
  const std::int64_t number = value.number().value_or(0);
  return number < 0 || number > kMostCharge ? 0 : static_cast<std::uint64_t>(number);
}

std::uint64_t address_in(const Value& value) { return static_cast<std::uint64_t>(value.number().value_or(0)); }

class Snapshot {
 public:
  Snapshot(const std::string& path, const PlainData& data) : data_(data), imported_(path) {}

  [[nodiscard]] std::unique_ptr<MemoryRecording> read() {
    const Value root = data_.root();
    const Value traces = root["device_traces"];
    began_ = first_time(root);
    imported_.header().began = began_ * kMicrosecond;
    const Value segments = segments_of(root);
    std::size_t devices = traces.size();
    for (std::size_t at = 0; at < segments.size(); ++at)
      devices = std::max<std::size_t>(devices, count_in(segments[at]["device"]) + 1);
    for (std::size_t device = 0; device < std::min(devices, kMostDevices); ++device) {
      imported_.need_device(device);
      read_device(traces[device], device);
    }
    read_ranges(root["external_annotations"]);
    return imported_.finish();
  }
  /// Returns true if the data has the lists of a snapshot.
  [[nodiscard]] static bool is_one(const Value& root) {
    return root["device_traces"].type() == PlainData::Type::kList || segments_of(root).type() == PlainData::Type::kList;
  }

 private:
  /// Returns the segments. torch.cuda.memory_snapshot() gives their list alone, without a dictionary around it.
  static Value segments_of(const Value& root) {
    return root.type() == PlainData::Type::kList ? root : root["segments"];
  }

  static std::int64_t first_time(const Value& root) {
    std::optional<std::int64_t> first;
    const Value traces = root["device_traces"];
    for (std::size_t device = 0; device < traces.size(); ++device)
      for (std::size_t at = 0; at < traces[device].size(); ++at)
        if (const auto time = traces[device][at]["time_us"].number(); time && *time >= 0 && *time < kLatest / 1000)
          first = std::min(first.value_or(*time), *time);
    return first.value_or(0);
  }
  /// Returns the time of an entry in nanoseconds since the beginning; 0 for entries of early versions, which have no
  /// time.
  [[nodiscard]] std::int64_t time_of(const Value& entry) const {
    const std::int64_t time = entry["time_us"].number().value_or(0);
    return time < began_ || time >= kLatest / 1000 ? 0 : (time - began_) * kMicrosecond;
  }

  Event event_of(Kind kind, std::int64_t time, std::size_t device, const Value& from) {
    Event event;
    event.kind = kind;
    event.time = time;
    event.device = static_cast<std::uint16_t>(device);
    event.stream = address_in(from["stream"]);
    event.site = site_of(from["frames"]);
    return event;
  }

  /// Returns the site of a stack. Its text has the calls of Python functions only, or all calls if the stack has none
  /// of Python.
  std::uint32_t site_of(const Value& frames) {
    if (frames.size() == 0) return 0;
    const auto [known, is_new] = sites_.try_emplace(frames.identity(), 0);
    if (!is_new) return known->second;
    std::string python, all;
    for (std::size_t at = 0; at < std::min(frames.size(), kMostFrames); ++at) {
      const Value frame = frames[at];
      const std::string_view file = frame["filename"].text();
      const std::string line = fmt::format("{} ({}:{})\n", frame["name"].text(), file, count_in(frame["line"]));
      all += line;
      if (file.ends_with(".py") || file.starts_with("<")) python += line;
    }
    std::string& text = python.empty() ? all : python;
    text.pop_back();
    return known->second = imported_.site(text);
  }

  void reserve(std::int64_t bytes, std::int64_t time, std::size_t device, const Value& from) {
    Event event = event_of(bytes > 0 ? Kind::kPoolGrew : Kind::kPoolTrimmed, time, device, from);
    event.bytes = static_cast<std::uint64_t>(std::abs(bytes));
    event.charged = bytes;
    imported_.add(event);
  }
  void take(std::uint64_t address, std::uint64_t bytes, std::int64_t time, std::size_t device, const Value& from) {
    Event event = event_of(Kind::kAllocate, time, device, from);
    event.address = address;
    event.bytes = bytes;
    imported_.add(event);
  }

  void read_device(const Value& trace, std::size_t device) {
    begin_device(trace, device);
    for (std::size_t at = 0; at < trace.size(); ++at) {
      const Value entry = trace[at];
      const std::string_view action = entry["action"].text();
      const std::int64_t time = time_of(entry);
      const std::uint64_t bytes = count_in(entry["size"]);
      if (const std::int64_t reserved = reserved_by(action, bytes); reserved != 0) {
        reserve(reserved, time, device, entry);
      } else if (action == "alloc") {
        take(address_in(entry["addr"]), bytes, time, device, entry);
      } else if (action == "free_completed") {
        Event event = event_of(Kind::kFree, time, device, entry);
        event.address = address_in(entry["addr"]);
        event.bytes = bytes;
        imported_.add(event);
      } else if (action == "oom") {
        Event event = event_of(Kind::kRefused, time, device, entry);
        event.bytes = bytes;
        event.detail = kOutOfMemory;
        imported_.add(event);
      }
    }
  }
  /// Returns the bytes by which an action changes the reserved memory.
  static std::int64_t reserved_by(std::string_view action, std::uint64_t bytes) {
    if (action == "segment_alloc" || action == "segment_map") return static_cast<std::int64_t>(bytes);
    if (action == "segment_free" || action == "segment_unmap") return -static_cast<std::int64_t>(bytes);
    return 0;
  }
  /// Adds the blocks that were taken before the history began: those that it frees without having taken them, and those
  /// that are live at its end without having been taken in it.
  void begin_device(const Value& trace, std::size_t device) {
    std::int64_t reserved = 0, least = 0;
    std::unordered_set<std::uint64_t> live;
    for (std::size_t at = 0; at < trace.size(); ++at) {
      const Value entry = trace[at];
      const std::string_view action = entry["action"].text();
      const std::uint64_t address = address_in(entry["addr"]);
      reserved += reserved_by(action, count_in(entry["size"]));
      least = std::min(least, reserved);
      if (action == "alloc") live.insert(address);
      if (action == "free_completed" && live.erase(address) == 0)
        take(address, count_in(entry["size"]), 0, device, entry);
    }
    std::int64_t at_end = 0;
    const Value segments = segments_of(data_.root());
    for (std::size_t at = 0; at < segments.size(); ++at) {
      const Value segment = segments[at];
      if (count_in(segment["device"]) != device) continue;
      at_end += static_cast<std::int64_t>(count_in(segment["total_size"]));
      const Value blocks = segment["blocks"];
      std::uint64_t place = address_in(segment["address"]);
      for (std::size_t block = 0; block < blocks.size(); ++block) {
        const Value one = blocks[block];
        const std::uint64_t address = one["address"].number() ? address_in(one["address"]) : place;
        const std::uint64_t bytes = count_in(one["size"]);
        place = address + bytes;
        const std::string_view state = one["state"].text();
        if ((state == "active_allocated" || state == "active_awaiting_free" || state == "active_pending_free") &&
            !live.contains(address))
          take(address, one["requested_size"].number() ? count_in(one["requested_size"]) : bytes, 0, device, one);
      }
    }
    if (const std::int64_t before = std::max(at_end - reserved, -least); before > 0)
      reserve(before, 0, device, data_.root());
  }

  void read_ranges(const Value& ranges) {
    for (std::size_t at = 0; at < ranges.size(); ++at) {
      const Value range = ranges[at];
      const std::uint64_t device = count_in(range["device"]);
      if (device >= imported_.header().devices.size()) continue;
      const std::string_view stage = range["stage"].text();
      if (stage != "START" && stage != "END") continue;
      Event event = event_of(stage == "START" ? Kind::kRangeBegan : Kind::kRangeEnded, time_of(range), device, range);
      event.site = imported_.site(range["name"].text());
      imported_.add(event);
    }
  }

  const PlainData& data_;
  Imported imported_;
  std::int64_t began_ = 0;                                  ///< microseconds since 1970
  std::unordered_map<std::uint64_t, std::uint32_t> sites_;  ///< by the list of frames
};

}  // namespace

Result<std::unique_ptr<MemoryRecording>> read_pytorch_snapshot(const std::string& path, std::string content) {
  const auto data = PlainData::parse(std::move(content));
  if (!data)
    return fail("E1811", fmt::format("{} is not a pickle of plain data: {}.", path, data.error()),
                "python -c 'import torch; …; torch.cuda.memory._dump_snapshot(\"memory.pickle\")'", 2);
  if (!Snapshot::is_one(data->root()))
    return fail("E1811", path + " is a pickle, but not a snapshot of PyTorch's memory.",
                "python -c 'import torch; …; torch.cuda.memory._dump_snapshot(\"memory.pickle\")'", 2);
  return Snapshot(path, *data).read();
}

}  // namespace ration::trace
