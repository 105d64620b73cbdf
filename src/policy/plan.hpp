// What a person asked for, made whole: sizes against the device, the slice, the guarantee against what is already
// promised. Used by `ration run`, `ration env` and `--dry-run`, which show the same plan. Changes nothing.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ledger/store.hpp"
#include "machine/devices.hpp"
#include "policy/promises.hpp"

namespace ration::policy {

/// As typed; empty = not given.
struct Wish {
  std::string limit, guarantee, gpu, slice, name, tenant, on_deny, account, managed;
  struct OfDevice {
    std::string limit, guarantee;
  };
  std::map<std::string, OfDevice> of_device;  ///< over `limit` and `guarantee`, by UUID
  std::vector<std::string> labels;
  bool growth = false;          ///< frameworks start small, whatever their variables say
  bool framework_hints = true;  ///< frameworks start small unless their variables say otherwise
};

struct PlannedAccount {
  machine::Device device;
  Bytes limit;
  Bytes guarantee;
  std::optional<Bytes> context;  ///< what one CUDA context costs here, where it is known
  std::optional<Bytes> typed;    ///< the limit before it was rounded down to whole granules, if that changed it
};

struct Plan {
  std::string name;  ///< empty: chosen when it starts
  std::string tenant, slice, labels;
  ledger::OnDeny on_deny = ledger::OnDeny::kFail;
  std::uint64_t wait_ns = 0;
  ledger::AccountMode account_mode = ledger::AccountMode::kDevice;
  ledger::ManagedPolicy managed = ledger::ManagedPolicy::kResident;
  std::vector<PlannedAccount> accounts;
  std::map<std::string, std::string> sets;   ///< environment variables the program gets
  std::string simulation;                    ///< what of CUDA is simulated, for people; empty: nothing
  std::map<std::string, std::string> keeps;  ///< the person's own that matter and stay
};

/// Measures what a context costs on a device; asked once for each device and driver, then remembered.
using ContextCost = std::function<std::optional<Bytes>(const machine::Device&)>;

/// A new limit: a size as size_on() takes it, or `+1GiB`, `-1GiB`: so much more or less than `now`.
[[nodiscard]] Result<Bytes> changed_limit(const machine::Device& device, const std::string& text, Bytes now);

/// E1104 E1105 E1204 E1304 E1407 E1408 E1409 E1605 and those of parse_size.
[[nodiscard]] Result<Plan> make_plan(const Wish& wish, const machine::Machine& machine, const ledger::Store& store,
                                     const ContextCost& measure_context);

/// A limit or guarantee in whole granules of the device. E1104 more than it has, E1105 less than a granule.
[[nodiscard]] Result<Bytes> size_on(const machine::Device& device, const std::string& text, const char* what = "limit");

/// What `fail`, `wait` and `wait:30s` mean; empty: `fail`. E1408.
struct DenialAnswer {
  ledger::OnDeny on_deny = ledger::OnDeny::kFail;
  std::uint64_t wait_ns = 0;
};
[[nodiscard]] Result<DenialAnswer> parse_on_deny(const std::string& text);

/// Whether one CUDA context fits into the limit, where it is known what that costs. E1204.
[[nodiscard]] Result<void> holds_context(Bytes limit, const std::optional<Bytes>& context);

/// Whether a typed guarantee means that nothing is promised any more: `none`, `0`, `0GiB`.
[[nodiscard]] bool takes_guarantee_away(const std::string& text);
/// size_on(), or 0 where it takes the guarantee away. E1102 for `unlimited`.
[[nodiscard]] Result<Bytes> guarantee_on(const machine::Device& device, const std::string& text);

/// As the books of one user and the slices say it: guarantees of running workloads outside slices, and these.
[[nodiscard]] Promises promises_on(const machine::Device& device, const ledger::Store& store);

}  // namespace ration::policy
