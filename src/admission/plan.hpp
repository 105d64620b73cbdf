// Makes a plan from the options of a request: resolves sizes for the chosen devices, finds the slice, and checks the
// guarantee against existing promises. Used by `ration run`, `ration env` and `--dry-run`, which show the same plan.
// Promise: making a plan changes nothing.
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

/// The options as typed. An empty text stands for an option that is not given.
struct PlanRequest {
  std::string limit, host_limit, guarantee, gpu, slice, name, tenant, on_deny, account, managed;
  struct OfDevice {
    std::string limit, guarantee;
  };
  std::map<std::string, OfDevice> of_device;  ///< by UUID, in place of `limit` and `guarantee`
  std::vector<std::string> labels;
  bool growth = false;          ///< makes frameworks start small, even if their variables say otherwise
  bool framework_hints = true;  ///< makes frameworks start small unless their variables say otherwise
  bool deep = false;            ///< makes frameworks take each tensor from the driver
};

struct PlannedAccount {
  machine::Device device;
  Bytes limit;
  Bytes guarantee;
  std::optional<Bytes> context;  ///< the cost of one CUDA context on the device, if known
  std::optional<Bytes> typed;    ///< the limit as typed; absent if rounding it down to granules changed nothing
};

struct Plan {
  std::string name;  ///< empty if the run chooses a name when it starts
  std::string tenant, slice, labels;
  book::OnDeny on_deny = book::OnDeny::kFail;
  std::uint64_t wait_ns = 0;
  book::AccountMode account_mode = book::AccountMode::kDevice;
  book::ManagedPolicy managed = book::ManagedPolicy::kResident;
  std::vector<PlannedAccount> accounts;
  Bytes host_limit = kUnlimited;             ///< the limit of pinned host memory
  std::map<std::string, std::string> sets;   ///< the environment variables that the program gets
  std::string simulation;                    ///< a description of the simulated CUDA, for people; empty if none
  std::map<std::string, std::string> keeps;  ///< the user's own variables that matter here and stay
};

/// A function that measures the cost of a context on a device. It is called once for each device and driver; the result
/// is kept.
using ContextCost = std::function<std::optional<Bytes>(const machine::Device&)>;

/// Parses a new limit: a size as size_on() takes it, or a step from `now`, such as `+1GiB` and `-1GiB`.
[[nodiscard]] Result<Bytes> changed_limit(const machine::Device& device, const std::string& text, Bytes now);

/// Makes the plan. Fails with E1104 or E1105 for a size that is too large or too small, E1204 for a limit below the
/// cost of a context, E1304 for a guarantee without room, E1407 for unknown devices or a wrong choice of devices, E1408
/// for an invalid `on_deny`, E1409 for an invalid name, and E1605 for a slice together with a GPU, limit or guarantee.
/// Fails as parse_size() does for an invalid size.
[[nodiscard]] Result<Plan> make_plan(const PlanRequest& request, const machine::Machine& machine,
                                     const book::Store& store, const ContextCost& measure_context);

/// Parses a limit or guarantee to whole granules of the device. Fails with E1104 if the device has less, E1105 if the
/// size is less than a granule.
[[nodiscard]] Result<Bytes> size_on(const machine::Device& device, const std::string& text, const char* what = "limit");

/// Parses a limit of pinned host memory to whole pages: a size as parse_size() takes it, where shares are of this
/// machine's memory, or a step from `now` as in changed_limit(). Fails with E1104 if the machine has less memory, E1105
/// if the size is less than a page.
[[nodiscard]] Result<Bytes> host_limit_of(const std::string& text, Bytes now = kUnlimited);

/// The parsed form of `fail`, `wait` and `wait:30s`. An empty text means `fail`; any other text fails with E1408.
struct DenialAnswer {
  book::OnDeny on_deny = book::OnDeny::kFail;
  std::uint64_t wait_ns = 0;
};
[[nodiscard]] Result<DenialAnswer> parse_on_deny(const std::string& text);

/// Checks that one CUDA context fits into the limit, if its cost is known. Fails with E1204.
[[nodiscard]] Result<void> holds_context(Bytes limit, const std::optional<Bytes>& context);

/// Returns true if the typed guarantee removes a guarantee: `none`, `0`, `0GiB`.
[[nodiscard]] bool takes_guarantee_away(const std::string& text);
/// Parses like size_on(), but returns 0 if the text removes the guarantee. Fails with E1102 for `unlimited`.
[[nodiscard]] Result<Bytes> guarantee_on(const machine::Device& device, const std::string& text);

/// Returns the promises in one user's books and slices: the guarantees of running workloads outside slices, and the
/// slices.
[[nodiscard]] Promises promises_on(const machine::Device& device, const book::Store& store);

}  // namespace ration::admission
