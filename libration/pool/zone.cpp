#include "pool/zone.hpp"

#include <algorithm>

namespace ration::pool {

Zone::Zone(std::uint64_t base, std::uint32_t granules)
    : base_(base), places_(granules), runs_(granules * kUnitsPerGranule), granules_(granules) {
  holes_[0] = granules;
}

Zone::Site Zone::best_site(std::uint32_t units, std::uint32_t alignment, StreamTag tag) const {
  Site best;
  for (const auto& [first, count] : holes_) {
    const std::uint32_t begin = first * kUnitsPerGranule;
    Site site{first, 0, runs_.free_before(begin, tag), {}};
    const std::uint32_t start = site.before.count > 0 ? site.before.start : begin;
    const std::uint32_t aligned = (start + alignment - 1) / alignment * alignment;
    if (aligned >= begin) site.before = {};  // the new run would use nothing of this free run
    const std::uint32_t end = (site.before.count > 0 ? aligned : std::max(aligned, begin)) + units;
    site.count = end > begin ? (end - begin + kUnitsPerGranule - 1) / kUnitsPerGranule : 1;
    if (site.count >= count) {  // takes the whole hole; the free run after it may help
      site.after = runs_.free_at(begin + count * kUnitsPerGranule, tag);
      if (begin + count * kUnitsPerGranule + site.after.count < end) continue;
      site.count = count;
    }
    // The alternative maps only the last granules of the hole, before a free run that has most of the units.
    const Run after = runs_.free_at(begin + count * kUnitsPerGranule, tag);
    if (alignment == 1 && after.count > 0 && after.count < units) {
      const std::uint32_t missing = (units - after.count + kUnitsPerGranule - 1) / kUnitsPerGranule;
      if (missing < site.count && missing <= count) site = {first + count - missing, missing, {}, after};
    }
    if (best.count == 0 || site.count < best.count) best = site;
  }
  return best;
}

void Zone::add(const Site& site, const Granule* granules, StreamTag tag) {
  auto hole = std::prev(holes_.upper_bound(site.first));
  const std::uint32_t first = hole->first, end = hole->first + hole->second;
  holes_.erase(hole);
  if (first < site.first) holes_[first] = site.first - first;
  if (site.first + site.count < end) holes_[site.first + site.count] = end - (site.first + site.count);
  std::copy_n(granules, site.count, granules_.data() + site.first);
  mapped_ += site.count;
  runs_.add({site.first * kUnitsPerGranule, site.count * kUnitsPerGranule}, tag);
}

void Zone::leave(std::uint32_t first, std::uint32_t count) {
  std::fill_n(granules_.data() + first, count, Granule{0});
  mapped_ -= count;
  auto next = holes_.lower_bound(first);
  if (next != holes_.end() && next->first == first + count) {
    count += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == first) {
      before->second += count;
      return;
    }
  }
  holes_[first] = count;
}

std::vector<Zone::Candidate> Zone::candidates(const Site& spared) const {
  std::vector<Candidate> result;
  runs_.each_free([&](Run run, StreamTag tag) {
    if ((spared.before.count > 0 && run.start == spared.before.start) ||
        (spared.after.count > 0 && run.start == spared.after.start))
      return;
    const std::uint32_t first = (run.start + kUnitsPerGranule - 1) / kUnitsPerGranule;
    const std::uint32_t end = (run.start + run.count) / kUnitsPerGranule;
    if (first < end) result.push_back({run.start, first, end - first, tag});
  });
  std::sort(result.begin(), result.end(),
            [](const Candidate& left, const Candidate& right) { return left.count > right.count; });
  return result;
}

std::uint32_t Zone::harvestable(const Site& spared) const {
  std::uint32_t total = 0;
  for (const Candidate& candidate : candidates(spared)) total += candidate.count;
  return total;
}

}  // namespace ration::pool
