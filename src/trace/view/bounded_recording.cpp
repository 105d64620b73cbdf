#include "trace/view/bounded_recording.hpp"

namespace ration::trace {

bool BoundedRecording::admit() const noexcept {
  if (left_ == 0) {
    is_exceeded_ = true;
    return false;
  }
  --left_;
  return true;
}

void BoundedRecording::read(const std::function<bool(const Event&)>& take) const {
  recording_.read([&](const Event& event) { return admit() && take(event); });
}

void BoundedRecording::read_near(std::int64_t time, const std::function<void(const Event&)>& restore,
                                 const std::function<bool(const Event&)>& take) const {
  recording_.read_near(
      time,
      [&](const Event& event) {
        if (admit()) restore(event);
      },
      [&](const Event& event) { return admit() && take(event); });
}

}  // namespace ration::trace
