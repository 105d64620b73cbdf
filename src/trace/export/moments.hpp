// The data of timelines: the bytes that each place holds and its limit, whenever either changes, and the events in
// between. Used by the exports that draw counters.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "trace/event.hpp"
#include "trace/export/holdings.hpp"

namespace ration::trace {

/// The sums of all places after an event.
class Sums {
 public:
  explicit Sums(const Header& header);

  /// Applies an event. Returns the place whose sum or limit it changed; nullopt: it changed neither.
  std::optional<Place> apply(const Event& event);
  [[nodiscard]] std::uint64_t held(Place place) const;
  /// Returns the limit in force; nullopt: no limit is known.
  [[nodiscard]] std::optional<std::uint64_t> limit(Place place) const { return limits_[place]; }

 private:
  const Header& header_;
  std::vector<std::int64_t> held_;
  std::vector<std::optional<std::uint64_t>> limits_;
};

/// Returns true for events that a person looks for on a timeline: marks, denials, waits, and queries how much memory
/// there is.
[[nodiscard]] bool is_instant(Kind kind);
/// Returns the text of such an event: `denied 512 MiB (3)`.
[[nodiscard]] std::string text_of(const Header& header, const Event& event);

}  // namespace ration::trace
