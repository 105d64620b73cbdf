// The contents of a new book. Used by programs that start a workload.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/process.hpp"
#include "book/terms.hpp"

namespace ration::book {

struct NewAccount {
  DeviceUuid device{};
  std::string device_name;
  Bytes device_total;
  Bytes limit;
  Bytes guarantee;
  Bytes context_estimate;  ///< the cost of one CUDA context on this device; 0 if not measured yet
};

struct NewBook {
  std::string name;
  std::string tenant;
  std::string slice;
  std::string labels;
  std::string command;
  std::string simulation;  ///< the simulated node, as --sim takes it; empty on the machine's own devices
  std::uint64_t run_number = 0;
  std::optional<ProcessIdentity> creator;  ///< the process whose end ends the workload; the calling process if absent
  OnDeny on_deny = OnDeny::kFail;
  std::uint64_t wait_ns = 0;
  AccountMode account_mode = AccountMode::kDevice;
  ManagedPolicy managed = ManagedPolicy::kResident;
  std::vector<NewAccount> accounts;
  Bytes host_limit = kUnlimited;  ///< the limit of pinned host memory
};

}  // namespace ration::book
