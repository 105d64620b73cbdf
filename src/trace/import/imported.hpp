// The common part of the importers of foreign files: events of one process, without a book.
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

  /// Ensures that the header has a device with this index.
  void need_device(std::size_t index);
  /// Returns the index of a text in Header::sites.
  [[nodiscard]] std::uint32_t site(std::string_view text);
  void add(const Event& event) { events_.push_back(event); }
  [[nodiscard]] Header& header() { return header_; }
  /// Returns the recording with its events sorted by time. Events of the same time stay in the order of add().
  [[nodiscard]] std::unique_ptr<MemoryRecording> finish();

 private:
  Header header_;
  std::vector<Event> events_;
  std::map<std::string, std::uint32_t, std::less<>> sites_;
};

}  // namespace ration::trace
