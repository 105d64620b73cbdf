#include "guard/hooks/graph_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "base/bytes.hpp"

namespace ration::guard {
namespace {

/// A graph as the tests write it down: the nodes that each one waits for, and what it takes or frees.
struct Graph {
  struct Node {
    std::vector<std::uint32_t> before;
    int takes = -1, frees = -1;
  };
  struct Memory {
    std::uint64_t bytes;
    int device;
  };
  std::vector<Node> nodes;
  std::vector<Memory> memory;

  std::uint32_t add(std::vector<std::uint32_t> before) {
    nodes.push_back({std::move(before), -1, -1});
    return static_cast<std::uint32_t>(nodes.size() - 1);
  }
  std::uint32_t take(std::uint64_t bytes, std::vector<std::uint32_t> before = {}, int device = 0) {
    const std::uint32_t node = add(std::move(before));
    nodes[node].takes = static_cast<int>(memory.size());
    memory.push_back({bytes, device});
    return node;
  }
  std::uint32_t free(std::uint32_t taken, std::vector<std::uint32_t> before) {
    const std::uint32_t node = add(std::move(before));
    nodes[node].frees = nodes[taken].takes;
    return node;
  }

  [[nodiscard]] std::uint64_t sum(int device) const {
    return std::accumulate(memory.begin(), memory.end(), std::uint64_t{0}, [&](std::uint64_t total, const Memory& one) {
      return total + (one.device == device ? one.bytes : 0);
    });
  }
};

void describe(const Graph& graph, GraphSchedule& out) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) out.add_node();
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const Graph::Node& node = graph.nodes[i];
    for (const std::uint32_t before : node.before) out.add_edge(before, i);
    const auto address = [](int memory) { return static_cast<std::uint64_t>(memory + 1) * 4096; };
    if (node.takes >= 0) {
      const Graph::Memory& taken = graph.memory[static_cast<std::size_t>(node.takes)];
      out.take(i, address(node.takes), taken.bytes, taken.device);
    }
    if (node.frees >= 0) out.free(i, address(node.frees));
  }
  out.settle();
}

std::uint64_t bound_of(const Graph& graph, int device = 0) {
  GraphSchedule schedule;
  describe(graph, schedule);
  EXPECT_TRUE(schedule.is_whole());
  return schedule.most(device);
}

/// A driver that reuses freed bytes wherever it may, and picks among them, and among the orders of nodes, at random.
std::uint64_t taken_by_a_driver(const Graph& graph, int device, std::mt19937& random) {
  std::vector<std::set<std::uint32_t>> ancestors(graph.nodes.size());
  struct Byte {
    bool in_use;
    std::uint32_t freed_at;
  };
  std::vector<Byte> bytes;
  std::vector<std::vector<std::size_t>> held(graph.memory.size());
  std::set<std::uint32_t> done;
  while (done.size() < graph.nodes.size()) {
    std::vector<std::uint32_t> ready;
    for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
      const auto& before = graph.nodes[i].before;
      if (!done.contains(i) && std::all_of(before.begin(), before.end(), [&](auto one) { return done.contains(one); }))
        ready.push_back(i);
    }
    const std::uint32_t at = ready[random() % ready.size()];
    done.insert(at);
    const Graph::Node& node = graph.nodes[at];
    for (const std::uint32_t before : node.before) {
      ancestors[at].insert(before);
      ancestors[at].insert(ancestors[before].begin(), ancestors[before].end());
    }
    if (node.takes >= 0 && graph.memory[static_cast<std::size_t>(node.takes)].device == device) {
      std::vector<std::size_t> usable;
      for (std::size_t byte = 0; byte < bytes.size(); ++byte) {
        if (!bytes[byte].in_use && ancestors[at].contains(bytes[byte].freed_at)) usable.push_back(byte);
      }
      std::shuffle(usable.begin(), usable.end(), random);
      auto& mine = held[static_cast<std::size_t>(node.takes)];
      for (std::uint64_t i = 0; i < graph.memory[static_cast<std::size_t>(node.takes)].bytes; ++i) {
        if (usable.empty()) {
          usable.push_back(bytes.size());
          bytes.push_back({});
        }
        bytes[usable.back()].in_use = true;
        mine.push_back(usable.back());
        usable.pop_back();
      }
    }
    if (node.frees >= 0) {
      for (const std::size_t byte : held[static_cast<std::size_t>(node.frees)]) bytes[byte] = {false, at};
    }
  }
  return bytes.size();
}

TEST(GraphSchedule, WhatFollowsAFreeStandsOnItsBytes) {
  Graph graph;
  std::uint32_t last = graph.take(3);
  for (int i = 0; i < 5; ++i) {
    last = graph.free(last, {last});
    last = graph.take(2 + i % 2, {last});
  }
  EXPECT_EQ(bound_of(graph), 3U);
}

TEST(GraphSchedule, WhatIsAliveTogetherIsSummed) {
  Graph graph;
  std::vector<std::uint32_t> taken;
  for (int i = 0; i < 300; ++i) taken.push_back(graph.take(40));
  const std::uint32_t join = graph.add(taken);
  for (const std::uint32_t one : taken) graph.free(one, {join});
  EXPECT_EQ(bound_of(graph), 300U * 40U);
}

TEST(GraphSchedule, BranchesShareNothingWithEachOtherAndEachReusesItsOwn) {
  Graph graph;
  for (std::uint64_t branch = 1; branch <= 3; ++branch) {
    std::uint32_t last = graph.take(branch);
    for (int i = 0; i < 4; ++i) last = graph.take(branch, {graph.free(last, {last})});
  }
  EXPECT_EQ(bound_of(graph), 1U + 2U + 3U);
}

TEST(GraphSchedule, AFreeThatNothingWaitsForLetsNothingBeReused) {
  Graph graph;
  const std::uint32_t first = graph.take(5);
  graph.free(first, {first});
  graph.take(5, {first});
  EXPECT_EQ(bound_of(graph), 10U);
}

TEST(GraphSchedule, EachDeviceIsCountedForItself) {
  Graph graph;
  const std::uint32_t first = graph.take(7, {}, 1);
  graph.take(2, {graph.free(first, {first})}, 0);
  EXPECT_EQ(bound_of(graph, 0), 2U);
  EXPECT_EQ(bound_of(graph, 1), 7U);
  EXPECT_EQ(bound_of(graph, 2), 0U);
}

TEST(GraphSchedule, WhatAnotherGraphTookIsToldApart) {
  GraphSchedule schedule;
  const GraphSchedule::Node node = schedule.add_node();
  schedule.free(node, 42);
  schedule.settle();
  ASSERT_EQ(schedule.frees_of_others().size(), 1U);
  EXPECT_EQ(schedule.frees_of_others()[0], 42U);
}

TEST(GraphSchedule, SizesThatNoDeviceHasDoNotWrapAround) {
  GraphSchedule schedule;
  for (std::uint64_t i = 0; i < 8; ++i) schedule.take(schedule.add_node(), i + 1, ~std::uint64_t{0} - i, 0);
  schedule.settle();
  EXPECT_EQ(schedule.most(0), kUnlimited.count());
}

TEST(GraphSchedule, AGraphTooLargeToLookAtIsSummed) {
  Graph graph;
  std::uint32_t last = graph.take(1);
  for (int i = 0; i < 9000; ++i) last = graph.take(1, {graph.free(last, {last})});
  EXPECT_EQ(bound_of(graph), graph.sum(0));
}

TEST(GraphSchedule, NoDriverThatReusesWhatItMayTakesMoreWhateverItPicks) {
  std::mt19937 random(20261126);
  int below_the_sum = 0;
  for (int round = 0; round < 400; ++round) {
    Graph graph;
    std::vector<std::uint32_t> taken;
    const std::size_t count = 2 + random() % 14;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::uint32_t> before;
      for (std::uint32_t node = 0; node < graph.nodes.size(); ++node) {
        if (random() % 4 == 0) before.push_back(node);
      }
      if (!taken.empty() && random() % 2 == 0) {
        const std::size_t which = random() % taken.size();
        before.push_back(taken[which]);
        graph.free(taken[which], before);
        taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(which));
      } else {
        taken.push_back(graph.take(1 + random() % 5, before, static_cast<int>(random() % 2)));
      }
    }
    for (int device = 0; device < 2; ++device) {
      const std::uint64_t bound = bound_of(graph, device);
      ASSERT_LE(bound, graph.sum(device)) << "round " << round;
      below_the_sum += bound < graph.sum(device) ? 1 : 0;
      for (int driver = 0; driver < 10; ++driver)
        ASSERT_LE(taken_by_a_driver(graph, device, random), bound) << "round " << round;
    }
  }
  EXPECT_GT(below_the_sum, 20) << "the bound is no more than the sum";
}

}  // namespace
}  // namespace ration::guard
