// A history in a folder of its own, and samples in few words.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "history/reader.hpp"

namespace ration::history {

using namespace literals;

/// 2026-01-05T00:00:00Z, a Monday.
inline constexpr TimeMs kStart = 1'767'571'200'000;

class HistoryTest : public testing::Test {
 protected:
  HistoryTest() {
    char name[] = "/tmp/ration-history-XXXXXX";
    folder_ = ::mkdtemp(name);
    path_ = folder_ + "/history.sqlite";
  }
  ~HistoryTest() override { std::filesystem::remove_all(folder_); }

  History open(const Options& options = {}) {
    auto history = History::open(path_, options);
    EXPECT_TRUE(history) << (history ? "" : history.error().what);
    return std::move(*history);
  }
  Reader reader() {
    auto reader = Reader::open(path_);
    EXPECT_TRUE(reader) << (reader ? "" : reader.error().what);
    return std::move(*reader);
  }
  /// Writes to the file as somebody else would; the first column of the last row.
  std::string sql(const std::string& text) {
    sqlite3* handle = nullptr;
    ::sqlite3_open(path_.c_str(), &handle);
    std::string answer;
    char* error = nullptr;
    ::sqlite3_exec(
        handle, text.c_str(),
        [](void* into, int, char** values, char**) {
          *static_cast<std::string*>(into) = values[0] != nullptr ? values[0] : "";
          return 0;
        },
        &answer, &error);
    if (error != nullptr) answer = error;
    ::sqlite3_free(error);
    ::sqlite3_close(handle);
    return answer;
  }

  std::string folder_, path_;
};

inline DeviceSample device(const std::string& uuid = "GPU-0", Bytes capacity = 40_GiB) {
  DeviceSample sample;
  sample.uuid = uuid, sample.name = "NVIDIA A100-40", sample.capacity = capacity;
  return sample;
}

inline WorkloadSample workload(std::uint64_t run, const std::string& name, Bytes used, Bytes limit = 10_GiB,
                               Bytes guarantee = 0_B) {
  WorkloadSample sample;
  sample.run = {run, kStart};
  sample.workload = name, sample.tenant = "nlp", sample.user = "alice";
  sample.used = sample.peak = used, sample.limit = limit, sample.guarantee = guarantee;
  return sample;
}

/// The pinned host memory of the run that workload() makes.
inline PinnedSample pinned(std::uint64_t run, Bytes used, Bytes peak = 0_B, std::uint64_t denials = 0) {
  return {{run, kStart}, used, std::max(used, peak), denials, 0};
}

inline Sample sample_at(TimeMs time, std::vector<WorkloadSample> workloads = {},
                        std::vector<DeviceSample> devices = {}) {
  Sample sample;
  sample.time_ns = time * 1'000'000;
  sample.devices = devices.empty() ? std::vector<DeviceSample>{device()} : std::move(devices);
  sample.workloads = std::move(workloads);
  return sample;
}

/// Several runs that ended, one after another, each with one sample at `peak` for an hour.
inline void past_run(History& history, std::uint64_t number, TimeMs start, Bytes peak, Bytes limit,
                     std::uint64_t denials = 0) {
  WorkloadSample now = workload(number, "train", peak, limit);
  now.run.started = start;
  now.denials = denials;
  EXPECT_TRUE(history.record(sample_at(start, {now})));
  now.denials = 0;
  EXPECT_TRUE(history.record(sample_at(start + kHourMs, {now})));
  EXPECT_TRUE(history.record(sample_at(start + kHourMs + 1, {})));
  history.run_ended(now.run, start + kHourMs, 0);
}

inline ReportQuestion whole_window(Basis basis = Basis::kUsed, By by = By::kTenant) {
  ReportQuestion question;
  question.window = {kStart, kStart + 400 * kDayMs};
  question.basis = basis, question.by = by;
  return question;
}

inline const ReportRow* find_row(const Report& report, const std::string& name) {
  for (const auto& row : report.rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

inline std::string seconds(Bytes bytes, TimeMs ms) { return byte_seconds(ByteTime{__int128{bytes.count()} * ms}); }

}  // namespace ration::history
