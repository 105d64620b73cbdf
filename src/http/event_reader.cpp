#include "http/event_reader.hpp"

#include <utility>

namespace ration::http {

bool EventReader::feed(std::string_view bytes, const std::function<bool(const StreamEvent&)>& taken) {
  for (const char letter : bytes) {
    // A line ends with CR, LF or CR LF.
    const bool second_of_pair = after_return_ && letter == '\n';
    after_return_ = letter == '\r';
    if (second_of_pair) continue;
    if (letter == '\r' || letter == '\n') {
      if (!end_of_line(taken)) return false;
    } else {
      line_ += letter;
    }
    if (line_.size() + event_.data.size() > kMaxEvent) {
      too_large_ = true;
      return false;
    }
  }
  return true;
}

bool EventReader::end_of_line(const std::function<bool(const StreamEvent&)>& taken) {
  const std::string line = std::exchange(line_, {});
  if (line.empty()) {
    bool go_on = true;
    if (has_data_) {
      if (event_.name.empty()) event_.name = "message";
      go_on = taken(event_);
    }
    event_.name.clear();
    event_.data.clear();
    has_data_ = false;
    return go_on;
  }
  const std::size_t colon = line.find(':');
  const std::string_view field = std::string_view(line).substr(0, colon);
  std::string_view value = colon == std::string::npos ? std::string_view{} : std::string_view(line).substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (field == "event") {
    event_.name = value;
  } else if (field == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  } else if (field == "id") {
    event_.id = value;
  }
  return true;
}

}  // namespace ration::http
