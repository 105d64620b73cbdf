// What a book begins with. Used by whoever starts a workload.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/process.hpp"
#include "ledger/terms.hpp"

namespace ration::ledger {

struct NewAccount {
  DeviceUuid device{};
  std::string device_name;
  Bytes device_total;
  Bytes limit;
  Bytes guarantee;
  Bytes context_estimate;  ///< what one CUDA context is known to cost on this device; 0 = not measured yet
};

struct NewBook {
  std::string name;
  std::string tenant;
  std::string slice;
  std::string labels;
  std::string command;
  std::string simulation;  ///< the simulated node, as --sim takes it; empty: the machine's own devices
  std::uint64_t run_number = 0;
  std::optional<ProcessIdentity> creator;  ///< with whom the workload ends; absent: the calling process
  OnDeny on_deny = OnDeny::kFail;
  std::uint64_t wait_ns = 0;
  AccountMode account_mode = AccountMode::kDevice;
  ManagedPolicy managed = ManagedPolicy::kResident;
  std::vector<NewAccount> accounts;
};

}  // namespace ration::ledger
