// Reads server-sent events out of a stream of bytes. Used by the client of the command line.
// Promises: any bytes may be fed, in any pieces, with the same outcome; one event is bounded.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ration::http {

struct StreamEvent {
  std::string name;  ///< "message" where none was given
  std::string data;
  std::string id;  ///< the last one seen, also by earlier events; for Last-Event-ID
};

class EventReader {
 public:
  /// An event that is larger ends the reading: 16 MiB.
  static constexpr std::size_t kMaxEvent = std::size_t{16} << 20;

  /// `taken` gets each complete event and answers whether to go on. False where it did not, or an event is too large.
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
