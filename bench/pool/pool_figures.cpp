// The figures of the pool beside those of a plain best fit, in one run: time, memory taken, smallest capacity, driver
// calls. Prints one table in Markdown.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../reference_machine.hpp"
#include "accounting_backing.hpp"
#include "best_fit_reference.hpp"
#include "pool/pool.hpp"
#include "workloads.hpp"

namespace ration::bench {
namespace {

using namespace literals;
using Clock = std::chrono::steady_clock;

constexpr Bytes kDevice = 80_GiB;

std::unique_ptr<pool::Pool> make_pool(Bytes limit, bool growth = true, Latency latency = {}) {
  pool::Options options;
  options.limit = limit;
  options.device = kDevice;
  options.growth = growth;
  pool::Failure failure = pool::Failure::kNone;
  auto made = pool::Pool::make(std::make_unique<AccountingBacking>(kDevice, latency), options, failure);
  if (made == nullptr) {
    std::fprintf(stderr, "no pool: %s\n", pool::describe(failure));
    std::exit(1);
  }
  return made;
}

// Both kinds behind the same two calls, without a virtual call in between.
struct Ours {
  pool::Pool& pool;
  std::uint64_t allocate(std::uint64_t size) {
    std::uint64_t address = 0;
    return pool.allocate(0, Bytes{size}, 256, address) == pool::Failure::kNone ? address : 0;
  }
  void free(std::uint64_t address) { (void)pool.deallocate(0, address); }
};
struct Theirs {
  BestFitReference& reference;
  std::uint64_t allocate(std::uint64_t size) { return reference.allocate(size); }
  void free(std::uint64_t address) { reference.free(address); }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// One pass. False: something was refused; everything is given back all the same.
template <typename Allocator>
bool replay(Allocator allocator, const Workload& workload, std::vector<std::uint64_t>& addresses) {
  addresses.assign(workload.blocks, 0);
  bool complete = true;
  for (const auto& step : workload.steps) {
    std::uint64_t& address = addresses[step.block];
    if (step.allocate) {
      address = complete ? allocator.allocate(step.size) : 0;
      complete = complete && address != 0;
    } else if (address != 0) {
      allocator.free(address);
      address = 0;
    }
  }
  return complete;
}

template <typename Allocator>
double ns_per_pair(Allocator allocator, const Workload& workload) {
  std::vector<std::uint64_t> addresses;
  for (int warm = 0; warm < 2; ++warm) replay(allocator, workload, addresses);
  std::vector<double> runs;
  for (int run = 0; run < 7; ++run) {
    const auto start = Clock::now();
    replay(allocator, workload, addresses);
    runs.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() /
                   static_cast<double>(workload.allocations));
  }
  return median(runs);
}

template <typename Allocator>
double ns_per_hot_pair(Allocator allocator, std::uint64_t size, int threads) {
  constexpr int kPairs = 400'000;
  std::vector<double> runs;
  for (int run = 0; run < 7; ++run) {
    const auto work = [&] {
      for (int i = 0; i < kPairs; ++i) allocator.free(allocator.allocate(size));
    };
    const auto start = Clock::now();
    if (threads == 1) {
      work();
    } else {
      std::vector<std::thread> running;
      for (int index = 0; index < threads; ++index) running.emplace_back(work);
      for (auto& thread : running) thread.join();
    }
    runs.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kPairs / threads);
  }
  return median(runs);
}

/// The smallest capacity, in granules, with which `completes` is true, as a ratio of the peak.
double smallest(std::uint64_t peak, const std::function<bool(Bytes)>& completes) {
  std::uint64_t low = peak / kGranule.count(), high = low * 3;
  while (low < high) {
    const std::uint64_t middle = (low + high) / 2;
    if (completes(kGranule * middle))
      high = middle;
    else
      low = middle + 1;
  }
  return static_cast<double>(low * kGranule.count()) / static_cast<double>(peak);
}

bool ours_completes(const Workload& workload, Bytes capacity) {
  const auto pool = make_pool(capacity);
  std::vector<std::uint64_t> addresses;
  for (int pass = 0; pass < 3; ++pass) {
    if (!replay(Ours{*pool}, workload, addresses)) return false;
  }
  return true;
}

bool theirs_completes(const Workload& workload, Bytes capacity) {
  BestFitReference reference(capacity.count(), false);
  std::vector<std::uint64_t> addresses;
  for (int pass = 0; pass < 3; ++pass) {
    if (!replay(Theirs{reference}, workload, addresses)) return false;
  }
  return true;
}

/// `slowness` other than 0: a time, held against its bound as it would be on the reference machine.
void row(const std::string& name, const char* format, double ours, double theirs, double bound, double slowness = 0) {
  char left[32], middle[32] = "n/a", scaled[32] = "", right[32];
  std::snprintf(left, sizeof left, format, ours);
  if (theirs >= 0) std::snprintf(middle, sizeof middle, format, theirs);
  if (slowness > 0) std::snprintf(scaled, sizeof scaled, format, ours / slowness);
  std::snprintf(right, sizeof right, format, bound);
  const double compared = slowness > 0 ? ours / slowness : ours;
  std::printf("| %s | %s | %s | %s | ≤ %s | %s |\n", name.c_str(), left, middle, scaled, right,
              compared <= bound ? "ok" : "MISSED");
  std::fflush(stdout);
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  long pages = 0, resident = 0;
  file >> pages >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

void speed(const std::vector<Workload>& traces, const Workload& random, double slowness) {
  const auto each = [&](const Workload& workload, double bound) {
    const auto pool = make_pool(kDevice);
    BestFitReference reference(kDevice.count(), true);
    const double ours = ns_per_pair(Ours{*pool}, workload);
    row(workload.name + ", ns a pair", "%.1f", ours, ns_per_pair(Theirs{reference}, workload), bound, slowness);
  };
  const auto hot = [&](std::uint64_t size, int threads) {
    const auto pool = make_pool(kDevice);
    BestFitReference reference(kDevice.count(), true);
    const double ours = ns_per_hot_pair(Ours{*pool}, size, threads);
    const double theirs = ns_per_hot_pair(Theirs{reference}, size, threads);
    row(std::to_string(size >> 10) + " KiB hot, " + (threads == 1 ? "one thread" : "2 threads, wall time") +
            ", ns a pair",
        "%.1f", ours, theirs, threads == 1 ? 20 : 15, slowness);
  };
  hot(1 << 10, 1);
  hot(64 << 10, 1);
  each(random, 60);
  for (const Workload& trace : traces) each(trace, 45);
  // Last: from the first thread on, the program takes its locks.
  hot(1 << 10, 2);
  hot(64 << 10, 2);
  row(
      "random 512 B-64 MiB again, now with locks, ns a pair", "%.1f",
      [&] {
        const auto pool = make_pool(kDevice);
        return ns_per_pair(Ours{*pool}, random);
      }(),
      -1, 60, slowness);
}

void memory(const std::vector<Workload>& traces, const Workload& random, const Workload& requests) {
  std::vector<std::uint64_t> addresses;
  for (const Workload& trace : traces) {
    const auto pool = make_pool(kDevice);
    BestFitReference reference(kDevice.count(), true);
    for (int pass = 0; pass < 3; ++pass) {
      replay(Ours{*pool}, trace, addresses);
      replay(Theirs{reference}, trace, addresses);
    }
    const auto peak = static_cast<double>(trace.peak_live);
    row(trace.name + ", taken with growth / peak live", "%.3f",
        static_cast<double>(pool->statistics().peak_bytes_reserved) / peak,
        static_cast<double>(reference.taken()) / peak, 1.03);
  }
  const auto capacity = [](const Workload& workload, double bound) {
    row(workload.name + ", smallest capacity / peak live", "%.3f",
        smallest(workload.peak_live, [&](Bytes bytes) { return ours_completes(workload, bytes); }),
        smallest(workload.peak_live, [&](Bytes bytes) { return theirs_completes(workload, bytes); }), bound);
  };
  for (const Workload& trace : traces) capacity(trace, 1.01);
  capacity(random, 1.10);
  capacity(requests, 1.02);
}

void giving_back(const Workload& random) {
  const auto pool = make_pool(kDevice);
  std::mt19937_64 choice(11);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> held;
  for (const auto& step : random.steps) {
    if (!step.allocate || held.size() >= 1400) continue;
    std::uint64_t address = 0;
    if (pool->allocate(0, Bytes{step.size}, 256, address) == pool::Failure::kNone)
      held.emplace_back(address, step.size);
  }
  std::shuffle(held.begin(), held.end(), choice);
  std::uint64_t live = 0;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (i % 2 == 0)
      (void)pool->deallocate(0, held[i].first);
    else
      live += held[i].second;
  }
  pool->trim();
  row("left after a random half was freed and trim() / live", "%.3f",
      static_cast<double>(pool->statistics().bytes_reserved) / static_cast<double>(live), -1, 1.10);
}

void bookkeeping() {
  const double before = resident_mib();
  const auto pool = make_pool(kDevice);
  std::mt19937_64 random(3);
  std::vector<std::uint64_t> addresses;
  for (int block = 0; block < 100'000; ++block) {
    std::uint64_t address = 0;
    if (pool->allocate(0, Bytes{1 + random() % (1640 << 10)}, 256, address) == pool::Failure::kNone)
      addresses.push_back(address);
  }
  std::shuffle(addresses.begin(), addresses.end(), random);
  const double after = resident_mib() - static_cast<double>(addresses.capacity() * sizeof(std::uint64_t)) / (1 << 20);
  row("host memory, 80 GiB device, " + std::to_string(addresses.size()) + " live blocks, MiB", "%.0f", after - before,
      -1, 64);
}

void driver_calls(const Workload& requests) {
  const auto pool = make_pool(kDevice);
  std::vector<std::uint64_t> addresses;
  for (int pass = 0; pass < 2; ++pass) replay(Ours{*pool}, requests, addresses);
  const std::uint64_t before = pool->statistics().driver_calls;
  replay(Ours{*pool}, requests, addresses);
  const auto calls = static_cast<double>(pool->statistics().driver_calls - before);
  row("key-value requests, driver calls a request in steady state", "%.3f",
      calls / static_cast<double>(requests.allocations), -1, 0.2);
  std::printf("| … with taken / peak live | %.3f | n/a | | | |\n",
              static_cast<double>(pool->statistics().peak_bytes_reserved) / static_cast<double>(requests.peak_live));
}

void growth(const Workload& trace) {
  const auto all = make_pool(16_GiB, false), growing = make_pool(16_GiB);
  std::uint64_t address = 0;
  (void)growing->allocate(0, 1_MiB, 256, address);
  const double held =
      static_cast<double>(growing->statistics().bytes_reserved) / static_cast<double>(all->statistics().bytes_reserved);
  row("held at the start with growth, percent of taking all", "%.1f", 100 * held, -1, 5);
  // A card's own times: 130 µs to take, 40 µs to map a batch, 450 µs to give back.
  using std::chrono::microseconds;
  const Latency card{microseconds(130), microseconds(40), microseconds(40), microseconds(450)};
  std::vector<double> ratios;
  std::vector<std::uint64_t> addresses;
  const auto with_growth = make_pool(16_GiB, true, card), without = make_pool(16_GiB, false, card);
  const auto timed = [&](pool::Pool& pool) {
    const auto start = Clock::now();
    for (int pass = 0; pass < 3; ++pass) replay(Ours{pool}, trace, addresses);
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  (void)timed(*with_growth);
  (void)timed(*without);
  const std::uint64_t before = with_growth->statistics().driver_calls;
  constexpr int kPairs = 100;
  for (int run = 0; run < kPairs; ++run) {
    // Whoever comes second finds warmer caches: they take turns.
    double grown = run % 2 == 0 ? timed(*with_growth) : 0;
    const double all_taken = timed(*without);
    if (run % 2 != 0) grown = timed(*with_growth);
    ratios.push_back(grown / all_taken);
  }
  row("driver calls a steady replay with growth", "%.1f",
      static_cast<double>(with_growth->statistics().driver_calls - before) / (3 * kPairs), -1, 1);
  row("steady replay with a card's latencies, growth / preallocated", "%.3f", median(ratios), -1, 1.01);
}

}  // namespace
}  // namespace ration::bench

int main(int argc, char** argv) {
  using namespace ration::bench;
  const std::string only = argc > 1 ? argv[1] : "";
  const char* names[] = {"bcrafton_forward_backward", "medium_1024_inference", "medium_128_training",
                         "medium_256_training",       "medium_512_inference",  "medium_512_training"};
  std::vector<Workload> traces;
  for (const char* name : names) {
    const auto trace = ration::workload::read_trace(name);
    if (!trace) {
      std::fprintf(stderr, "ration-bench-pool: %s: %s\n", name, trace.error().what.c_str());
      return 1;
    }
    traces.push_back(from_trace(*trace));
    traces.back().name = name;
  }
  const Workload random = random_sizes(700, 20'000, 1), requests = key_value_requests(64, 10'000, 1);
  const double slowness = measure_slowness();
  std::printf(
      "| figure | pool | best fit | pool, on the reference machine | must be | |\n| --- | --- | --- | --- | --- | --- "
      "|\n");
  if (only.empty() || only == "speed") speed(traces, random, slowness);
  if (only.empty() || only == "memory") memory(traces, random, requests);
  if (only.empty() || only == "back") giving_back(random);
  if (only.empty() || only == "host") bookkeeping();
  if (only.empty() || only == "calls") driver_calls(requests);
  if (only.empty() || only == "growth") growth(traces[5]);
}
