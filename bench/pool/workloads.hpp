// What the pool is measured with: recorded histories, random sizes, and the contiguous key-value caches of a language
// model's requests. A workload is a list of steps that every allocator is given in the same order.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "sim/workload/trace.hpp"

namespace ration::bench {

struct Workload {
  std::string name;
  struct Step {
    bool allocate;
    std::uint32_t block;
    std::uint64_t size;
  };
  std::vector<Step> steps;
  std::uint32_t blocks = 0;
  std::uint64_t peak_live = 0;
  std::uint64_t allocations = 0;
};

inline void finish(Workload& workload) {
  std::vector<std::uint64_t> sizes(workload.blocks);
  std::uint64_t live = 0;
  for (const auto& step : workload.steps) {
    if (step.allocate) {
      sizes[step.block] = step.size;
      live += step.size;
      ++workload.allocations;
    } else {
      live -= sizes[step.block];
    }
    workload.peak_live = std::max(workload.peak_live, live);
  }
}

/// The history, and at its end everything that it leaves is given back, so that it can be repeated.
inline Workload from_trace(const workload::Trace& trace) {
  Workload result;
  result.name = trace.name;
  result.blocks = trace.blocks;
  std::vector<bool> live(trace.blocks);
  for (const auto& event : trace.events) {
    if (event.allocate && event.size == 0) continue;
    if (!event.allocate && !live[event.id]) continue;
    live[event.id] = event.allocate;
    result.steps.push_back({event.allocate, event.id, event.size});
  }
  for (std::uint32_t block = 0; block < trace.blocks; ++block) {
    if (live[block]) result.steps.push_back({false, block, 0});
  }
  finish(result);
  return result;
}

/// `live` blocks at a time whose sizes are drawn by `size`; each step replaces a random one.
template <typename Size>
Workload replacing(const std::string& name, std::uint32_t live, int replacements, unsigned seed, Size&& size) {
  Workload result;
  result.name = name;
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> held;
  const auto start = [&] {
    result.steps.push_back({true, result.blocks, size(random)});
    held.push_back(result.blocks++);
  };
  while (held.size() < live) start();
  for (int step = 0; step < replacements; ++step) {
    std::swap(held[random() % held.size()], held.back());
    result.steps.push_back({false, held.back(), 0});
    held.pop_back();
    start();
  }
  for (const std::uint32_t block : held) result.steps.push_back({false, block, 0});
  finish(result);
  return result;
}

/// 512 B to 64 MiB, every power of two as likely as any other.
inline Workload random_sizes(std::uint32_t live, int replacements, unsigned seed) {
  return replacing("random 512 B-64 MiB", live, replacements, seed, [](std::mt19937_64& random) {
    const double exponent = std::uniform_real_distribution<double>(9.0, 26.0)(random);
    return static_cast<std::uint64_t>(std::exp2(exponent));
  });
}

/// Requests to a language model whose key-value cache lies in one block: 128 KiB a token, log-normal lengths with a
/// median of 800 tokens.
inline Workload key_value_requests(std::uint32_t live, int replacements, unsigned seed) {
  return replacing("key-value requests", live, replacements, seed, [](std::mt19937_64& random) {
    const double tokens = std::lognormal_distribution<double>(std::log(800.0), 0.8)(random);
    return static_cast<std::uint64_t>(std::min(std::max(tokens, 1.0), 16384.0)) * (128 << 10);
  });
}

}  // namespace ration::bench
