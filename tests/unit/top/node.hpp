// A node for the tests of the live view: the snapshot as the daemon would send it.
#pragma once

#include <gtest/gtest.h>

#include <clocale>

#include "top/frame.hpp"

namespace ration::top::testing {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

inline nlohmann::json row(const std::string& tenant, const std::string& name, double used, double limit,
                          std::uint64_t denials = 0) {
  const auto bytes = [](double gib) { return static_cast<std::uint64_t>(gib * static_cast<double>(kGiB)); };
  nlohmann::json workload{
      {"workload", name},
      {"tenant", tenant},
      {"user", "alice"},
      {"run", 17},
      {"gpu", 0},
      {"state", "running"},
      {"governed", true},
      {"enforced_by", "shim"},
      {"slice", ""},
      {"labels", "exp=42"},
      {"command", "python train.py"},
      {"used_bytes", bytes(used)},
      {"limit_bytes", bytes(limit)},
      {"configured_limit_bytes", bytes(limit)},
      {"guarantee_bytes", 0},
      {"peak_bytes", bytes(used)},
      {"denials", denials},
      {"limit_changes", 2},
      {"idle_seconds", 0},
      {"processes", nlohmann::json::array({{{"pid", 4411}, {"command", "python train.py"}, {"state", "managed"}}})}};
  if (denials > 0) workload["last_denial"] = "d-17-" + std::to_string(denials);
  return workload;
}

inline nlohmann::json ungoverned(const std::string& command, double used) {
  return {{"workload", nullptr},
          {"gpu", 0},
          {"governed", false},
          {"user", "carol"},
          {"used_bytes", static_cast<std::uint64_t>(used * static_cast<double>(kGiB))},
          {"container", nullptr},
          {"origin", "ssh session 3"},
          {"processes", nlohmann::json::array({{{"pid", 6001}, {"command", command}, {"state", "unmanaged"}}})}};
}

inline nlohmann::json snapshot(const nlohmann::json& rows) {
  return {{"devices", nlohmann::json::array({{{"gpu", 0},
                                              {"name", "NVIDIA A100-40"},
                                              {"total_bytes", 40 * kGiB},
                                              {"used_bytes", 32 * kGiB},
                                              {"free_bytes", 8 * kGiB},
                                              {"utilisation_percent", 64},
                                              {"ungoverned_bytes", 4 * kGiB},
                                              {"unexplained_bytes", 0}}})},
          {"workloads", rows}};
}

inline nlohmann::json usual_rows() {
  return {row("nlp", "train", 12, 16), row("vision", "serve", 10, 10, 17), row("jup", "kernel", 5, 8),
          ungoverned("/usr/bin/python x.py", 4)};
}

/// A view of that node, as an operator has it.
inline View view_of(const nlohmann::json& data) {
  View view;
  view.host = "node7";
  view.source = "daemon";
  view.read_only = false;
  take_snapshot(view, read_snapshot(data), 1'000'000'000);
  return view;
}

class Top : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { std::setlocale(LC_CTYPE, "C.UTF-8"); }
};

}  // namespace ration::top::testing
