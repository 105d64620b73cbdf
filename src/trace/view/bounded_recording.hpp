// A recording of which a reader takes at most so many events, whatever it holds. Used where the recording is another
// user's and the memory and time are the daemon's.
#pragma once

#include <cstdint>
#include <functional>

#include "trace/event.hpp"

namespace ration::trace {

class BoundedRecording final : public Recording {
 public:
  /// `recording` lives longer than this. All reads together end after `most` events.
  BoundedRecording(const Recording& recording, std::uint64_t most) : recording_(recording), left_(most) {}

  const Header& header() const override { return recording_.header(); }
  const Overview* overview() const override { return recording_.overview(); }
  std::int64_t begins_near(std::int64_t time) const override { return recording_.begins_near(time); }
  void read(const std::function<bool(const Event&)>& take) const override;
  void read_near(std::int64_t time, const std::function<void(const Event&)>& restore,
                 const std::function<bool(const Event&)>& take) const override;
  /// True once events were held back: what was made of the others is not the whole.
  [[nodiscard]] bool is_exceeded() const noexcept { return is_exceeded_; }

 private:
  /// Returns true for an event that may still be taken.
  [[nodiscard]] bool admit() const noexcept;

  const Recording& recording_;
  mutable std::uint64_t left_;
  mutable bool is_exceeded_ = false;
};

}  // namespace ration::trace
