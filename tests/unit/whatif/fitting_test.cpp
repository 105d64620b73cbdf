// Whether programs of known sizes fit on GPUs.
#include "trace/whatif/fitting.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/gpu_models.hpp"

namespace ration::trace {
namespace {

using namespace ration::literals;

std::vector<NamedGpu> gpus(const std::string& text) { return parse_gpus(text).value(); }

std::vector<SizedProgram> programs(const std::vector<std::string>& texts) {
  std::vector<SizedProgram> all;
  for (const auto& text : texts) all.push_back(parse_program(text, {}).value());
  return all;
}

std::map<std::string, int> on(const Fitting& fitting, std::size_t gpu) {
  std::map<std::string, int> all;
  for (const auto& group : fitting.gpus[gpu].programs) all[group.name] += group.count;
  return all;
}

using Counts = std::map<std::string, int>;

TEST(Fitting, PacksTightSoThatDevicesStayEmpty) {
  const auto fitting = fit(gpus("A100-40:2"), programs({"nlp=16GiB:30GiB", "vision=10GiB", "jup=4GiB*6"}));
  EXPECT_TRUE(fitting.fits);
  EXPECT_EQ(fitting.needed, 50_GiB);
  EXPECT_EQ(on(fitting, 0), (Counts{{"nlp", 1}, {"vision", 1}, {"jup", 3}}));
  EXPECT_EQ(on(fitting, 1), (Counts{{"jup", 3}}));
  ASSERT_EQ(fitting.unreachable.size(), 1U);
  EXPECT_EQ(fitting.unreachable[0].name, "nlp");
  EXPECT_EQ(fitting.unreachable[0].reachable, 16_GiB + fitting.gpus[0].spare);
}

TEST(Fitting, FindsWhatBestFitDoesNot) {
  // Best fit puts 6 with 6 (or 5 with 5 and 4 over); 6+4+4 and 5+5+4 fill both.
  const auto fitting = fit(gpus("T4:14GiB*2"), programs({"a=6GiB", "b=5GiB*2", "c=4GiB*3"}));
  EXPECT_TRUE(fitting.fits);
  EXPECT_EQ(fitting.gpus[0].spare + fitting.gpus[1].spare, 0_GiB);
}

TEST(Fitting, SaysWhatIsLeftOverAndHowManyMoreGpusAreEnough) {
  const auto fitting = fit(gpus("T4:16GiB*2"), programs({"a=10GiB*2", "b=7GiB"}));
  EXPECT_FALSE(fitting.fits);
  ASSERT_EQ(fitting.left_over.size(), 1U);
  EXPECT_EQ(fitting.left_over[0].name, "b");
  EXPECT_EQ(fitting.more_gpus, 1);
  EXPECT_EQ(fit(gpus("T4:16GiB"), programs({"a=20GiB"})).more_gpus, 0);
}

TEST(Fitting, TextsAreRead) {
  EXPECT_EQ(gpus("A100-40:2,T4:15GiB*3,H100").size(), 6U);
  EXPECT_EQ(gpus("A100-40:2,T4:15GiB*3,H100")[4].usable, 15_GiB);
  EXPECT_EQ(gpus("A100-40*2").size(), 2U);
  EXPECT_EQ(gpus("12GiB*2")[1].usable, 12_GiB);
  for (const char* bad : {"", "A100", "12", "0GiB", "12GiB:2", "A100-40:0", "A100-40:", "T4*x", "T4:15GiB*0", "T4,,T4",
                          "T4:2*2", "T4:unlimited"})
    EXPECT_FALSE(parse_gpus(bad)) << bad;
  EXPECT_EQ(parse_gpus("Q9").error().id, "E1308");
  EXPECT_EQ(parse_gpus("17179869184GiB").error().id, "E1104");
  EXPECT_EQ(parse_gpus("17179869184GiB").error().fix, parse_gpus("Q9").error().fix);
  for (const char* bad :
       {"nlp", "=4GiB", "a=4", "a=", "a=4GiB*0", "a=4GiB*1001", "a=4GiB*", "a=4GiB:2GiB", "a=unlimited", "a=4GiB:"})
    EXPECT_FALSE(parse_program(bad, {})) << bad;
  EXPECT_EQ(parse_program("a=50%", gpus("T4:16GiB*2"))->guarantee, 8_GiB);
  EXPECT_EQ(parse_program("a=50%", gpus("T4,A30")).error().id, "E1307");
  for (const GpuModel& model : gpu_models()) EXPECT_EQ(gpus(model.key)[0].usable, model.total);
}

/// Whether any way at all fits, by trying all of them.
bool possible(std::vector<Bytes> room, const std::vector<Bytes>& items, std::size_t from) {
  if (from == items.size()) return true;
  for (Bytes& each : room) {
    if (each < items[from]) continue;
    each -= items[from];
    if (possible(room, items, from + 1)) return true;
    each += items[from];
  }
  return false;
}

TEST(FittingRandom, NeverTooMuchOnADeviceAndNoIsCertain) {
  std::mt19937_64 random(1);
  int fitting = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<NamedGpu> some;
    std::vector<Bytes> room, items;
    for (int i = 0; i < 1 + static_cast<int>(random() % 3); ++i) {
      some.push_back({"X", 1_GiB * (8 + random() % 9)});
      room.push_back(some.back().usable);
    }
    std::vector<SizedProgram> all;
    for (int i = 0; i < 1 + static_cast<int>(random() % 5); ++i) {
      const Bytes guarantee = 1_GiB * (1 + random() % 9);
      all.push_back(
          {"t" + std::to_string(i), guarantee, guarantee + 1_GiB * (random() % 4), 1 + static_cast<int>(random() % 2)});
      items.insert(items.end(), static_cast<std::size_t>(all.back().count), guarantee);
    }
    const bool expected = possible(room, items, 0);
    fitting += expected ? 1 : 0;
    const auto found = fit(some, all);
    ASSERT_EQ(found.fits, expected) << "round " << round;
    Counts counts;
    for (const auto& gpu : found.gpus) {
      Bytes sum;
      for (const auto& program : gpu.programs) {
        sum += program.guarantee * static_cast<std::uint64_t>(program.count);
        counts[program.name] += program.count;
      }
      ASSERT_EQ(sum + gpu.spare, gpu.gpu.usable);
    }
    for (const auto& program : found.left_over) counts[program.name] += program.count;
    for (const auto& program : all) ASSERT_EQ(counts[program.name], program.count);
  }
  EXPECT_GT(fitting, 80);
  EXPECT_LT(fitting, 320);
}

}  // namespace
}  // namespace ration::trace
