// Reads server-sent events from a stream of bytes. Used by the client of the command line. Promises: any bytes may be
// fed, in any pieces, with the same outcome; one event is bounded.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ration::http {

struct StreamEvent {
  std::string name;  ///< "message" if none was given
  std::string data;
  std::string id;  ///< the last id so far, for Last-Event-ID; earlier events may have set it
};

class EventReader {
 public:
  /// The maximum size of an event: 16 MiB. A larger event ends the reading.
  static constexpr std::size_t kMaxEvent = std::size_t{16} << 20;

  /// Passes each complete event to `taken`, which returns true to continue. Returns false if `taken` returns false, or
  /// if an event is too large.
  bool feed(std::string_view bytes, const std::function<bool(const StreamEvent&)>& taken);
  [[nodiscard]] bool too_large() const noexcept { return too_large_; }

 private:
  bool end_of_line(const std::function<bool(const StreamEvent&)>& taken);

  std::string line_;
  StreamEvent event_;
  bool has_data_ = false;
  bool after_return_ = false;
  bool too_large_ = false;
};

}  // namespace ration::http
