// How long a report over 400 days of 200 workloads takes. The days are generated: each workload runs all the time on
// one of eight devices, what it holds changes by the hour. Every hour goes through the same door as the daemon's
// samples.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "history/reader.hpp"

namespace {

using namespace ration;
using namespace ration::history;

constexpr int kDays = 400, kWorkloads = 200, kDevices = 8, kRounds = 7;
constexpr TimeMs kBegin = 1'767'571'200'000;  // 2026-01-05

// Of this thread: beside the clock's, as what a quiet machine would show.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <typename T>
T or_exit(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s %s\n", result.error().id.c_str(), result.error().what.c_str());
  std::exit(1);
}

// Byte-milliseconds that the workloads held, counted beside the history.
__int128 generate(const std::string& path) {
  // The history keeps 400 days: the last commit is to remove none of them.
  History history = or_exit(History::open(path, {2 * kHourMs, false}));
  std::mt19937_64 random(1);
  __int128 held = 0;
  for (int hour = 0; hour <= kDays * 24; ++hour) {
    Sample sample;
    sample.time_ns = (kBegin + hour * kHourMs) * 1'000'000;
    for (int index = 0; index < kDevices; ++index) {
      DeviceSample device;
      device.uuid = "GPU-" + std::to_string(index), device.name = "NVIDIA A100-80";
      device.capacity = Bytes{std::uint64_t{80} << 30};
      device.ungoverned = Bytes{random() % (std::uint64_t{4} << 30)};
      sample.devices.push_back(device);
    }
    for (int index = 0; index < kWorkloads; ++index) {
      WorkloadSample workload;
      workload.run = {static_cast<std::uint64_t>(index + 1), kBegin};
      workload.workload = "workload-" + std::to_string(index), workload.tenant = "tenant-" + std::to_string(index % 20);
      workload.user = "user-" + std::to_string(index % 50), workload.labels = "team=t" + std::to_string(index % 10);
      workload.device = static_cast<std::size_t>(index % kDevices);
      workload.limit = Bytes{std::uint64_t{3} << 30}, workload.guarantee = Bytes{std::uint64_t{1} << 30};
      workload.used = workload.peak = Bytes{random() % workload.limit.count()};
      if (hour < kDays * 24) held += __int128{workload.used.count()} * kHourMs;
      sample.workloads.push_back(workload);
    }
    if (const auto recorded = history.record(sample); !recorded) std::exit(1);
    if (hour % 24 != 0) continue;
    if (const auto stored = history.commit(); !stored) std::exit(1);
  }
  return held;
}

}  // namespace

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "ration-history-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const std::string path = folder + "/history.sqlite";
  const auto start = std::chrono::steady_clock::now();
  const __int128 held = generate(path);
  const double generated = seconds_since(start);

  Reader reader = or_exit(Reader::open(path));
  bool exact = true;
  // By the clock, by the processor.
  const auto median = [&](By by) {
    std::vector<double> runs, processor;
    for (int round = 0; round < kRounds; ++round) {
      ReportQuestion question;
      question.window = {kBegin, kBegin + kDays * kDayMs};
      question.by = by, question.label = "team";
      question.prices.general = 31'000'000;
      const double worked = processor_seconds();
      const auto begin = std::chrono::steady_clock::now();
      const Report report = or_exit(reader.usage(question));
      runs.push_back(seconds_since(begin));
      processor.push_back(processor_seconds() - worked);
      ByteTime used;
      for (const auto& row : report.rows) {
        if (row.kind == Kind::kGoverned) used += row.used;
      }
      exact = exact && report.adds_up && used == ByteTime{held};
    }
    std::sort(runs.begin(), runs.end());
    std::sort(processor.begin(), processor.end());
    return std::pair{runs[kRounds / 2], processor[kRounds / 2]};
  };
  const auto by_tenant = median(By::kTenant), by_day = median(By::kDay);
  const double mebibytes = static_cast<double>(std::filesystem::file_size(path)) / (1 << 20);
  const bool good = exact && by_tenant.first <= 2 && by_day.first <= 2;
  std::printf(
      "| history | generated in | report by tenant (processor) | by day (processor) | database | sums | must be | |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
      "| %d days of %d workloads on %d devices, %d hours of runs | %.1f s | %.2f s (%.2f s) | %.2f s (%.2f s) | %.0f "
      "MiB "
      "| %s | ≤ 2 s, exact | %s |\n",
      kDays, kWorkloads, kDevices, kDays * 24 * kWorkloads, generated, by_tenant.first, by_tenant.second, by_day.first,
      by_day.second, mebibytes, exact ? "exact" : "WRONG", good ? "ok" : "MISSED");
  std::filesystem::remove_all(folder);
  return 0;
}
