// What a call of the driver writes for the program.
#pragma once

#include <cstdint>
#include <cstring>

namespace ration::shim {

/// Stands in for what the program gave to be written to, so that the guard reads it before the program's other threads
/// can change it. Handed on where the driver wrote something: the program's may be no address at all in a wrong call.
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

}  // namespace ration::shim
