// A stand-in for memory of the program to which a driver call writes. Used by the hooks.
#pragma once

#include <cstdint>
#include <cstring>

namespace ration::guard {

/// A value to which the driver writes instead of to the program's memory, so that the guard reads the value before the
/// program's other threads can change it. The value is copied to the program only if the driver wrote one, because in a
/// wrong call the program's pointer may be invalid.
template <typename Value>
class Written {
 public:
  Written() noexcept { std::memset(&value_, kUnlikely, sizeof value_); }
  [[nodiscard]] Value* place() noexcept { return &value_; }
  [[nodiscard]] Value value() const noexcept { return value_; }
  void hand_on(Value* out) const noexcept {
    const Written untouched;
    if (std::memcmp(&value_, &untouched.value_, sizeof value_) != 0) *out = value_;
  }

 private:
  static constexpr int kUnlikely = 0xa7;
  Value value_;
};

}  // namespace ration::guard
