#include "rows/order.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.hpp"
#include "base/utf8.hpp"

namespace ration::rows {
namespace {

/// Returns -1, 0 or 1; unknown values come last.
int compare(const Field& field, bool descending, const Row& left, const Row& right) {
  if (field.kind == FieldKind::kText) {
    const std::string one = field.text(left), other = field.text(right);
    if (one.empty() != other.empty()) return one.empty() ? 1 : -1;
    const int outcome = one.compare(other);
    return descending ? -outcome : outcome;
  }
  const auto one = field.number(left), other = field.number(right);
  if (!one || !other) return one ? -1 : other ? 1 : 0;
  const int outcome = *one < *other ? -1 : *one > *other ? 1 : 0;
  return descending ? -outcome : outcome;
}

}  // namespace

Order::Order() : keys_{{field_named("used"), true}, {field_named("name"), false}}, text_("-used,name") {}

Result<Order> Order::parse(std::string_view text) {
  Order order;
  order.keys_.clear();
  order.text_ = text;
  const std::string plain = in_ascii(text);
  for (const std::string_view part : split(plain, ',')) {
    std::string name(part);
    std::erase(name, ' ');
    const bool descending = !name.empty() && name.front() == '-';
    if (descending) name.erase(0, 1);
    const Field* field = field_named(name);
    if (field == nullptr) {
      std::vector<std::string> names;
      for (const Field& each : fields()) names.emplace_back(each.name);
      return fail("E1431",
                  fmt::format("rows have no field '{}' to sort by.{} They have {}.", name, suggestion(name, names),
                              field_names()),
                  "-used,name   sorts by use, the largest first, then by name", 2);
    }
    order.keys_.push_back({field, descending});
  }
  return order;
}

void Order::sort(std::vector<const Row*>& rows) const {
  std::stable_sort(rows.begin(), rows.end(), [&](const Row* left, const Row* right) {
    for (const Key& key : keys_)
      if (const int outcome = compare(*key.field, key.descending, *left, *right); outcome != 0) return outcome < 0;
    return false;
  });
}

}  // namespace ration::rows
