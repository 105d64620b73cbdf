// Sorts rows by a text: `-used,name` means the largest first, then by name. Used by the live view and by `ration ps`.
// Promises: unknown values come last in either direction; equal rows keep a fixed order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "rows/filter_fields.hpp"

namespace ration::rows {

class Order {
 public:
  /// Makes the default order, `-used,name`.
  Order();
  /// Parses an order. Fails with E1431.
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
