#include "base/labels.hpp"

#include <algorithm>

#include "base/printable.hpp"
#include "base/strings.hpp"

namespace ration {

std::map<std::string, std::string> parse_labels(std::string_view text) {
  std::map<std::string, std::string> labels;
  for (const std::string_view label : split(text, ','))
    if (const auto parts = split_once(label, '='); parts && !parts->first.empty())
      labels[std::string(parts->first)] = parts->second;
  return labels;
}

bool is_label(std::string_view text) {
  const auto parts = split_once(text, '=');
  return parts && !parts->first.empty() && text.find(',') == std::string_view::npos && is_printable(text);
}

std::string label_of(std::string_view name, std::string value) {
  value = printable(std::move(value), '_');
  std::replace(value.begin(), value.end(), ',', '_');
  return std::string(name) + "=" + value;
}

std::vector<std::string> fitting_labels(std::vector<std::string> wanted) {
  std::size_t length = 0;
  std::erase_if(wanted, [&](const std::string& label) {
    const std::size_t longer = length + label.size() + (length == 0 ? 0 : 1);
    if (longer > kMaxLabels) return true;
    length = longer;
    return false;
  });
  return wanted;
}

}  // namespace ration
