// A recording that passes on a limited number of events, however many it has. Used where the daemon spends its memory
// and time on a recording of another user.
#pragma once

#include <cstdint>
#include <functional>

#include "trace/event.hpp"

namespace ration::trace {

class BoundedRecording final : public Recording {
 public:
  /// Requires that `recording` outlives this object. All reads together pass on at most `most` events.
  BoundedRecording(const Recording& recording, std::uint64_t most) : recording_(recording), left_(most) {}

  const Header& header() const override { return recording_.header(); }
  const Overview* overview() const override { return recording_.overview(); }
  std::int64_t begins_near(std::int64_t time) const override { return recording_.begins_near(time); }
  void read(const std::function<bool(const Event&)>& take) const override;
  void read_near(std::int64_t time, const std::function<void(const Event&)>& restore,
                 const std::function<bool(const Event&)>& take) const override;
  /// Returns true once an event was left out, so that results are incomplete.
  [[nodiscard]] bool is_exceeded() const noexcept { return is_exceeded_; }

 private:
  /// Counts an event. Returns true if it may still be passed on.
  [[nodiscard]] bool admit() const noexcept;

  const Recording& recording_;
  mutable std::uint64_t left_;
  mutable bool is_exceeded_ = false;
};

}  // namespace ration::trace
