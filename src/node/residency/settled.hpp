// An amount that is the difference of two measurements. They are taken one after the other, so it is off by whatever
// happened in between. Used for what a device holds that is nobody's.
#pragma once

#include <algorithm>

#include "base/bytes.hpp"

namespace ration::node {

/// Promises: it changes only when three measurements in a row are above it, or three below it, and then by no more than
/// all three say; the first one counts at once.
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
    if (++count_ < kAgreeing) return value_;
    count_ = 0;
    return value_ = nearest_;
  }
  /// Another measurement or two will tell.
  [[nodiscard]] bool unsure() const { return count_ > 0; }

 private:
  static constexpr int kAgreeing = 3;
  Bytes value_, nearest_;
  int count_ = 0;
  bool known_ = false, above_ = false;
};

}  // namespace ration::node
