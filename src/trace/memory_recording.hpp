// A recording in memory: an imported history, or one that a test makes.
#pragma once

#include <utility>
#include <vector>

#include "trace/event.hpp"

namespace ration::trace {

class MemoryRecording final : public Recording {
 public:
  /// Makes a recording of events that are in order of time. The header must resolve the numbers in them.
  MemoryRecording(Header header, std::vector<Event> events) : header_(std::move(header)), events_(std::move(events)) {}

  const Header& header() const override { return header_; }
  void read(const std::function<bool(const Event&)>& take) const override {
    for (const Event& event : events_)
      if (!take(event)) return;
  }
  [[nodiscard]] const std::vector<Event>& events() const noexcept { return events_; }

 private:
  Header header_;
  std::vector<Event> events_;
};

}  // namespace ration::trace
