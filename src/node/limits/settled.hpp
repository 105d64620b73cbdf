// Smooths an amount that is the difference of two measurements. The two are made at different times, so a change in
// between distorts the difference. Used for device memory outside every book.
#pragma once

#include <algorithm>

#include "base/bytes.hpp"

namespace ration::node {

/// Promise: the value changes only after three successive measurements above it, or three below it, and then only to
/// the nearest of the three. The first measurement counts at once.
class Settled {
 public:
  Bytes note(Bytes measured) {
    if (!known_) {
      known_ = true;
      value_ = measured;
    }
    if (measured == value_ || (measured > value_) != above_ || count_ == 0) {
      above_ = measured > value_;
      nearest_ = measured;
      count_ = measured == value_ ? 0 : 1;
      return value_;
    }
    nearest_ = above_ ? std::min(nearest_, measured) : std::max(nearest_, measured);
    if (++count_ < kRequired) return value_;
    count_ = 0;
    return value_ = nearest_;
  }
  /// Returns true while one or two measurements disagree with the value.
  [[nodiscard]] bool is_changing() const { return count_ > 0; }

 private:
  static constexpr int kRequired = 3;
  Bytes value_, nearest_;
  int count_ = 0;
  bool known_ = false, above_ = false;
};

}  // namespace ration::node
