// Recordings for tests, event by event.
#pragma once

#include <utility>
#include <vector>

#include "trace/memory_recording.hpp"

namespace ration::trace {

/// Makes recordings of one process; times pass by a second an event.
class Recorded {
 public:
  explicit Recorded(std::size_t devices = 1) {
    header_.workload = "train";
    header_.complete = true;
    header_.devices.resize(devices);
    header_.processes.push_back({1, 0, "python train.py"});
    header_.sites.emplace_back();
  }
  Header& header() { return header_; }

  Recorded& add(Kind kind, std::int64_t charged, std::uint64_t bytes = 0, std::uint64_t address = 0,
                std::uint16_t device = 0, Account account = Account::kDevice) {
    Event event;
    event.time = static_cast<std::int64_t>(events_.size()) * 1'000'000'000;
    event.kind = kind;
    event.charged = charged;
    event.bytes = bytes;
    event.address = address;
    event.device = device;
    event.account = account;
    events_.push_back(event);
    return *this;
  }
  Recorded& allocate(std::int64_t charged, std::uint64_t address = 1, std::uint16_t device = 0) {
    return add(Kind::kAllocate, charged, static_cast<std::uint64_t>(charged), address, device);
  }
  Recorded& free(std::int64_t charged, std::uint64_t address = 1, std::uint16_t device = 0) {
    return add(Kind::kFree, -charged, 0, address, device);
  }
  [[nodiscard]] MemoryRecording recording() const { return {header_, events_}; }

 private:
  Header header_;
  std::vector<Event> events_;
};

}  // namespace ration::trace
