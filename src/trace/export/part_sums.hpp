// The bytes of each part in each place, kept up to date by the changes of Holdings. Used by the exports.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trace/export/holdings.hpp"

namespace ration::trace {

class PartSums {
 public:
  explicit PartSums(const Header& header) : sums_(places(header)) {}

  void apply(const Change& change) {
    std::uint64_t& sum = sums_[change.holding.place][static_cast<std::size_t>(change.holding.part)];
    sum = change.came ? sum + change.holding.bytes : sum - change.holding.bytes;
  }
  [[nodiscard]] std::uint64_t of(Place place, Part part) const { return sums_[place][static_cast<std::size_t>(part)]; }
  [[nodiscard]] std::uint64_t of(Place place) const {
    std::uint64_t all = 0;
    for (const std::uint64_t sum : sums_[place]) all += sum;
    return all;
  }

 private:
  std::vector<std::array<std::uint64_t, kParts>> sums_;
};

}  // namespace ration::trace
