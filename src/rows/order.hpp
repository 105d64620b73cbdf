// In which order rows are shown: `-used,name` is the largest first, then by name. Used by the live view and by
// `ration ps`.
// Promise: what is unknown comes last either way; rows that compare alike keep a fixed order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "rows/filter_fields.hpp"

namespace ration::rows {

class Order {
 public:
  /// `-used,name`.
  Order();
  /// E1431.
  [[nodiscard]] static Result<Order> parse(std::string_view text);

  void sort(std::vector<const Row*>& rows) const;
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  struct Key {
    const Field* field;
    bool descending;
  };
  std::vector<Key> keys_;
  std::string text_;
};

}  // namespace ration::rows
