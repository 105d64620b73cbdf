#include "pool/run_heap.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace ration::pool {
namespace {

constexpr std::uint32_t kUnits = 20'000;

/// What each unit is: not there, free in a stream's order, or held by the run that starts at `start`.
struct Model {
  enum Kind { kAbsent, kFree, kHeld };
  struct Unit {
    Kind kind = kAbsent;
    StreamTag tag = 0;
    std::uint32_t start = 0;
  };
  std::vector<Unit> units = std::vector<Unit>(kUnits);
};

TEST(RunHeap, AgreesWithAnArrayOfUnitsUnderRandomOperations) {
  RunHeap heap(kUnits);
  Model model;
  std::mt19937 engine(5);
  const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
  std::map<std::uint32_t, std::uint32_t> held;
  for (int step = 0; step < 60'000; ++step) {
    const auto tag = static_cast<StreamTag>(random() % 3);
    switch (random() % 8) {
      case 0: {  // some units appear
        const std::uint32_t start = random() % kUnits, count = 1 + random() % 200;
        bool absent = start + count <= kUnits;
        for (std::uint32_t unit = start; absent && unit < start + count; ++unit)
          absent = model.units[unit].kind == Model::kAbsent;
        if (!absent) break;
        heap.add({start, count}, tag);
        for (std::uint32_t unit = start; unit < start + count; ++unit) model.units[unit] = {Model::kFree, tag, 0};
        break;
      }
      case 1:
      case 2:
      case 3: {
        const std::uint32_t count = 1 + random() % (random() % 4 == 0 ? 300 : 20), alignment = 1U << random() % 4;
        pool::Run run;
        if (!heap.take(count, alignment, tag, run)) break;
        ASSERT_EQ(run.count, count);
        ASSERT_EQ(run.start % alignment, 0U);
        for (std::uint32_t unit = run.start; unit < run.start + count; ++unit) {
          ASSERT_EQ(model.units[unit].kind, Model::kFree) << "handed out twice, or not there";
          ASSERT_EQ(model.units[unit].tag, tag) << "of another stream";
          model.units[unit] = {Model::kHeld, 0, run.start};
        }
        held[run.start] = count;
        break;
      }
      case 4:
      case 5: {
        if (held.empty()) break;
        auto victim = held.lower_bound(random() % kUnits);
        if (victim == held.end()) victim = held.begin();
        ASSERT_EQ(heap.held(victim->first).count, victim->second);
        if (victim->second > 1) {
          ASSERT_EQ(heap.held(victim->first + 1).count, 0U) << "inside a run";
        }
        heap.release(victim->first, tag);
        ASSERT_EQ(heap.held(victim->first).count, 0U);
        for (std::uint32_t unit = victim->first; unit < victim->first + victim->second; ++unit)
          model.units[unit] = {Model::kFree, tag, 0};
        held.erase(victim);
        break;
      }
      case 6: {  // part of a free run goes
        std::vector<pool::Run> runs;
        heap.each_free([&](pool::Run run, StreamTag) { runs.push_back(run); });
        if (runs.empty()) break;
        const pool::Run run = runs[random() % runs.size()];
        const std::uint32_t from = run.start + random() % run.count;
        const std::uint32_t count = 1 + random() % (run.start + run.count - from);
        heap.remove(run.start, {from, count});
        for (std::uint32_t unit = from; unit < from + count; ++unit) model.units[unit] = {};
        break;
      }
      default: {
        if (step % 64 != 0) break;
        const auto to = static_cast<StreamTag>(random() % 3);
        heap.retag(tag, to);
        for (Model::Unit& unit : model.units) {
          if (unit.kind == Model::kFree && unit.tag == tag) unit.tag = to;
        }
      }
    }
    if (step % 500 != 0) continue;
    std::uint32_t free_units = 0, largest[3] = {};
    for (std::uint32_t unit = 0, length = 0; unit < kUnits; ++unit) {
      const bool is_free = model.units[unit].kind == Model::kFree;
      const bool goes_on = is_free && unit > 0 && model.units[unit - 1].kind == Model::kFree &&
                           model.units[unit - 1].tag == model.units[unit].tag;
      length = is_free ? (goes_on ? length + 1 : 1) : 0;
      free_units += is_free ? 1 : 0;
      if (is_free) largest[model.units[unit].tag] = std::max(largest[model.units[unit].tag], length);
    }
    ASSERT_EQ(heap.free_units(), free_units);
    ASSERT_EQ(heap.largest_free(), std::max({largest[0], largest[1], largest[2]})) << "neighbours not joined";
    std::uint32_t found = 0;
    heap.each_free([&](pool::Run run, StreamTag run_tag) {
      for (std::uint32_t unit = run.start; unit < run.start + run.count; ++unit) {
        ASSERT_EQ(model.units[unit].kind, Model::kFree);
        ASSERT_EQ(model.units[unit].tag, run_tag);
      }
      found += run.count;
    });
    ASSERT_EQ(found, free_units);
    for (StreamTag each = 0; each < 3; ++each) {  // a run that fits is found
      pool::Run run;
      if (largest[each] == 0) continue;
      ASSERT_TRUE(heap.take(largest[each], 1, each, run));
      heap.release(run.start, each);
    }
  }
}

}  // namespace
}  // namespace ration::pool
