// What importers of foreign files have in common: events of one process, which no book was charged for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trace/memory_recording.hpp"

namespace ration::trace {

class Imported {
 public:
  /// Names workload and process after the file.
  explicit Imported(const std::string& path);

  /// Makes the header know a device of this index.
  void need_device(std::size_t index);
  /// Returns the index of a text in Header::sites.
  [[nodiscard]] std::uint32_t site(std::string_view text);
  void add(const Event& event) { events_.push_back(event); }
  [[nodiscard]] Header& header() { return header_; }
  /// Returns the recording, its events by time; of one time in the order in which they were added.
  [[nodiscard]] std::unique_ptr<MemoryRecording> finish();

 private:
  Header header_;
  std::vector<Event> events_;
  std::map<std::string, std::uint32_t, std::less<>> sites_;
};

}  // namespace ration::trace
