// Completes a request: sizes against the device, the slice, the guarantee against existing promises. Used by `ration
// run`, `ration env` and `--dry-run`, which show the same plan. Changes nothing.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "admission/promises.hpp"
#include "book/store.hpp"
#include "machine/devices.hpp"

namespace ration::admission {

/// The options as typed; empty: not given.
struct PlanRequest {
  std::string limit, host_limit, guarantee, gpu, slice, name, tenant, on_deny, account, managed;
  struct OfDevice {
    std::string limit, guarantee;
  };
  std::map<std::string, OfDevice> of_device;  ///< overrides `limit` and `guarantee`, by UUID
  std::vector<std::string> labels;
  bool growth = false;          ///< frameworks start small, even if their variables say otherwise
  bool framework_hints = true;  ///< frameworks start small unless their variables say otherwise
};

struct PlannedAccount {
  machine::Device device;
  Bytes limit;
  Bytes guarantee;
  std::optional<Bytes> context;  ///< the cost of one CUDA context here, if known
  std::optional<Bytes> typed;    ///< the limit before it was rounded down to whole granules, if that changed it
};

struct Plan {
  std::string name;  ///< empty: chosen at the start
  std::string tenant, slice, labels;
  book::OnDeny on_deny = book::OnDeny::kFail;
  std::uint64_t wait_ns = 0;
  book::AccountMode account_mode = book::AccountMode::kDevice;
  book::ManagedPolicy managed = book::ManagedPolicy::kResident;
  std::vector<PlannedAccount> accounts;
  Bytes host_limit = kUnlimited;             ///< of pinned host memory
  std::map<std::string, std::string> sets;   ///< environment variables that the program gets
  std::string simulation;                    ///< a description of the simulated CUDA, for people; empty: none
  std::map<std::string, std::string> keeps;  ///< relevant variables of the user that stay
};

/// Measures the cost of a context on a device; called once for each device and driver, then remembered.
using ContextCost = std::function<std::optional<Bytes>(const machine::Device&)>;

/// Parses a new limit: a size as size_on() takes it, or `+1GiB`, `-1GiB`: more or less than `now`.
[[nodiscard]] Result<Bytes> changed_limit(const machine::Device& device, const std::string& text, Bytes now);

/// Makes the plan. E1104 E1105 E1204 E1304 E1407 E1408 E1409 E1605 and those of parse_size.
[[nodiscard]] Result<Plan> make_plan(const PlanRequest& request, const machine::Machine& machine,
                                     const book::Store& store, const ContextCost& measure_context);

/// Parses a limit or guarantee to whole granules of the device. E1104: more than the device has; E1105: less than a
/// granule.
[[nodiscard]] Result<Bytes> size_on(const machine::Device& device, const std::string& text, const char* what = "limit");

/// Parses a limit of pinned host memory to whole pages: a size as parse_size() takes it, of this machine's memory, or a
/// step from `now` as in changed_limit(). E1104: more than the machine has; E1105: less than a page.
[[nodiscard]] Result<Bytes> host_limit_of(const std::string& text, Bytes now = kUnlimited);

/// The parsed form of `fail`, `wait` and `wait:30s`; empty: `fail`. E1408.
struct DenialAnswer {
  book::OnDeny on_deny = book::OnDeny::kFail;
  std::uint64_t wait_ns = 0;
};
[[nodiscard]] Result<DenialAnswer> parse_on_deny(const std::string& text);

/// Checks that one CUDA context fits into the limit, if its cost is known. E1204.
[[nodiscard]] Result<void> holds_context(Bytes limit, const std::optional<Bytes>& context);

/// Returns true if a typed guarantee removes the guarantee: `none`, `0`, `0GiB`.
[[nodiscard]] bool takes_guarantee_away(const std::string& text);
/// As size_on(), or 0 if the text removes the guarantee. E1102 for `unlimited`.
[[nodiscard]] Result<Bytes> guarantee_on(const machine::Device& device, const std::string& text);

/// Returns the promises recorded in the books and slices of one user: guarantees of running workloads outside slices,
/// and slices.
[[nodiscard]] Promises promises_on(const machine::Device& device, const book::Store& store);

}  // namespace ration::admission
