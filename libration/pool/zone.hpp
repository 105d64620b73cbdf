// A part of the pool's address range in which blocks lie side by side. Granules are mapped where they are needed and
// taken out where no block is in use. Used by pool.cpp, which keeps small blocks and large ones in separate zones so
// that a small block never pins a granule that a large one needs.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "pool/backing.hpp"
#include "pool/lazy_array.hpp"
#include "pool/run_heap.hpp"

namespace ration::pool {

/// The unit in which runs are counted. A block wastes less than one unit by rounding.
inline constexpr Bytes kUnit{16 << 10};
inline constexpr std::uint32_t kUnitsPerGranule = static_cast<std::uint32_t>(kGranule.count() / kUnit.count());

/// A zone of the address range. Not thread-safe.
class Zone {
 public:
  /// Makes an empty zone with places for `granules` granules from `base` on.
  Zone(std::uint64_t base, std::uint32_t granules);

  /// The place where a run could be completed by mapping the fewest granules.
  struct Site {
    std::uint32_t first = 0;  ///< place of the first granule to map
    std::uint32_t count = 0;  ///< number of granules to map; 0: the run fits nowhere
    Run before, after;        ///< free runs on either side that become part of the run
  };
  [[nodiscard]] Site best_site(std::uint32_t units, std::uint32_t alignment, StreamTag tag) const;

  /// Adds the units of the granules that the caller has mapped at the site, as free ones.
  void add(const Site& site, const Granule* granules, StreamTag tag);

  /// Takes up to `at_most` granules out of free runs, largest runs first, but not out of the runs at `spared`, and
  /// appends them to `out`. Each range leaves the heap and is passed to `unmap(first, count)`; if that fails, the range
  /// is put back and the search ends.
  template <typename Unmap>
  void harvest(std::uint32_t at_most, const Site& spared, std::vector<Granule>& out, Unmap&& unmap) {
    for (const Candidate& candidate : candidates(spared)) {
      if (at_most == 0) return;
      const std::uint32_t count = candidate.count < at_most ? candidate.count : at_most;
      const std::uint32_t first = candidate.first + candidate.count - count;
      runs_.remove(candidate.run_start, {first * kUnitsPerGranule, count * kUnitsPerGranule});
      if (!unmap(first, count)) {
        runs_.add({first * kUnitsPerGranule, count * kUnitsPerGranule}, candidate.tag);
        return;
      }
      for (std::uint32_t place = first; place < first + count; ++place) out.push_back(granules_[place]);
      leave(first, count);
      at_most -= count;
    }
  }
  /// Returns the number of whole granules in free runs other than those at `spared`.
  [[nodiscard]] std::uint32_t harvestable(const Site& spared) const;

  [[nodiscard]] RunHeap& runs() noexcept { return runs_; }
  [[nodiscard]] const RunHeap& runs() const noexcept { return runs_; }
  [[nodiscard]] std::size_t host_bytes() const noexcept {
    return runs_.host_bytes() + places_ * sizeof(Granule) + holes_.size() * 48;
  }
  [[nodiscard]] std::uint32_t mapped() const noexcept { return mapped_; }
  [[nodiscard]] std::uint64_t base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t address_of(std::uint32_t unit) const noexcept { return base_ + unit * kUnit.count(); }
  [[nodiscard]] std::uint64_t place_address(std::uint32_t place) const noexcept {
    return base_ + place * kGranule.count();
  }
  [[nodiscard]] bool contains(std::uint64_t address) const noexcept {
    return address - base_ < places_ * kGranule.count();
  }
  [[nodiscard]] std::uint32_t unit_of(std::uint64_t address) const noexcept {
    return static_cast<std::uint32_t>((address - base_) / kUnit.count());
  }
  [[nodiscard]] std::uint32_t places() const noexcept { return places_; }
  /// Returns the granule that is mapped at `place`, or 0.
  [[nodiscard]] Granule granule_at(std::uint32_t place) const noexcept { return granules_[place]; }
  /// Calls `visit(first, count)` for every range of places that have granules.
  template <typename Visit>
  void each_mapped(Visit&& visit) const {
    std::uint32_t place = 0;
    for (const auto& [first, count] : holes_) {
      if (first > place) visit(place, first - place);
      place = first + count;
    }
    if (place < places_) visit(place, places_ - place);
  }

 private:
  struct Candidate {
    std::uint32_t run_start, first, count;
    StreamTag tag;
  };
  [[nodiscard]] std::vector<Candidate> candidates(const Site& spared) const;
  void leave(std::uint32_t first, std::uint32_t count);

  std::uint64_t base_;
  std::uint32_t places_;
  RunHeap runs_;
  LazyArray<Granule> granules_;                   // by place
  std::map<std::uint32_t, std::uint32_t> holes_;  // places without a granule: count by first place
  std::uint32_t mapped_ = 0;
};

}  // namespace ration::pool
