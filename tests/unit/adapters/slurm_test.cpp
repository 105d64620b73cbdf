// What Slurm granted, as it writes it, and what its configuration has to say.
#include <gtest/gtest.h>

#include "adapters/slurm/configuration.hpp"
#include "adapters/slurm/grant.hpp"

namespace ration::adapters::slurm {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::vector<std::pair<int, std::uint64_t>> told(const std::string& gres) {
  std::vector<std::pair<int, std::uint64_t>> all;
  const auto shares = shares_in(gres);
  EXPECT_TRUE(shares.has_value()) << gres;
  if (shares)
    for (const Share& share : *shares) all.emplace_back(share.gpu, share.bytes.count() / kMiB);
  return all;
}

TEST(SlurmGrant, IsReadAsEveryReleaseWritesIt) {
  using All = std::vector<std::pair<int, std::uint64_t>>;
  EXPECT_EQ(told(""), All{});
  EXPECT_EQ(told("gpu:h200:2(IDX:0-1)"), All{});
  EXPECT_EQ(told("shard:61440(IDX:1)"), (All{{1, 61440}}));
  EXPECT_EQ(told("shard:h200:61440(IDX:0)"), (All{{0, 61440}}));
  EXPECT_EQ(told("gpu:h200:0(IDX:),shard:h200:4096(IDX:2)"), (All{{2, 4096}}));
  EXPECT_EQ(told("shard:h200:61440(0/144384,61440/144384)"), (All{{1, 61440}}));
  EXPECT_EQ(told("shard:20(10/144384,10/144384),gpu:0"), (All{{0, 10}, {1, 10}}));
}

TEST(SlurmGrant, ThatTellsNoGpuOrNoAmountIsAnError) {
  for (const char* gres : {"shard:61440", "shard:x(IDX:0)", "shard:(IDX:0)", "shard:4G(IDX:0)", "shard:10(IDX:0-1)",
                           "shard:10(IDX:)", "shard:10(IDX:-1)", "shard:10(IDX:99999999999999999999)", "shard:10(",
                           "shard:10(a/b)", "shard:99999999999999999999(IDX:0)", "shard:-1(IDX:0)"}) {
    const auto shares = shares_in(gres);
    ASSERT_FALSE(shares.has_value()) << gres;
    EXPECT_EQ(shares.error().id, "E1720") << gres;
  }
}

TEST(SlurmConfiguration, CountsSharesInMibOfEachGpu) {
  const NodeFacts node{"n1",
                       "/usr/bin/ration",
                       "/usr/lib/ration/ration_spank.so",
                       "/usr/share/ration/slurm",
                       {{0, "NVIDIA H200", Bytes{144384 * kMiB}}, {1, "NVIDIA H100 80GB HBM3", Bytes{81559 * kMiB}}}};
  const auto text = configuration_of(node);
  ASSERT_TRUE(text.has_value());
  for (const char* line :
       {"NodeName=n1 Name=gpu Type=h200 File=/dev/nvidia0\n", "NodeName=n1 Name=shard Count=81559 File=/dev/nvidia1\n",
        "largest_gpu_mib = 144384\n", "NodeName=n1 Gres=gpu:h100:1,gpu:h200:1,shard:225943\n",
        "PrologFlags=Alloc,Contain\n", "required /usr/lib/ration/ration_spank.so ration=/usr/bin/ration\n"})
    EXPECT_NE(text->find(line), std::string::npos) << line << *text;
}

TEST(SlurmConfiguration, IsOfNodesWithWholeGpus) {
  NodeFacts node{"n1", "", "", "", {{0, "NVIDIA H200", Bytes{144384 * kMiB}}}};
  node.name = "n1\nNodeName=n2";
  EXPECT_FALSE(configuration_of(node).has_value());
  node.name = "n1";
  node.gpus[0].is_whole = false;
  EXPECT_FALSE(configuration_of(node).has_value());
  node.gpus.clear();
  EXPECT_FALSE(configuration_of(node).has_value());
}

}  // namespace
}  // namespace ration::adapters::slurm
