#include "base/labels.hpp"

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

}  // namespace ration
