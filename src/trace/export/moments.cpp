#include "trace/export/moments.hpp"

#include <fmt/format.h>

#include "base/units.hpp"
#include "trace/export/names.hpp"

namespace ration::trace {

Sums::Sums(const Header& header) : header_(header), held_(places(header)), limits_(places(header)) {
  for (std::size_t device = 0; device < header.devices.size(); ++device)
    if (const auto& limit = header.devices[device].limit; limit && *limit < kUnlimited)
      limits_[device] = limit->count();
}

std::optional<Place> Sums::apply(const Event& event) {
  const Place place = place_of(event, header_);
  if (place >= held_.size()) return std::nullopt;
  held_[place] += event.charged;
  const bool changes_limit = event.kind == Kind::kLimitChanged;
  if (changes_limit) limits_[place] = event.bytes < kUnlimited.count() ? std::optional(event.bytes) : std::nullopt;
  return changes_limit || event.charged != 0 ? std::optional(place) : std::nullopt;
}

std::uint64_t Sums::held(Place place) const { return held_[place] > 0 ? static_cast<std::uint64_t>(held_[place]) : 0; }

bool is_instant(Kind kind) { return kind == Kind::kMark || is_answer(kind); }

std::string text_of(const Header& header, const Event& event) {
  const std::string size = event.bytes > 0 ? " " + format_size(Bytes{event.bytes}) : "";
  switch (event.kind) {
    case Kind::kMark:
      return text_of(header, event.site);
    case Kind::kWaited:
      return fmt::format("waited {} ms{}", event.detail, size.empty() ? "" : " for" + size);
    case Kind::kAsked:
      return fmt::format("asked how much there is:{}", size.empty() ? " 0" : size);
    default:
      return fmt::format("{}{} ({})", name_of(event.kind), size, event.detail);
  }
}

}  // namespace ration::trace
