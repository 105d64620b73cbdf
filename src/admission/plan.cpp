#include "admission/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "admission/denials.hpp"
#include "admission/slices.hpp"
#include "base/command.hpp"
#include "base/labels.hpp"
#include "base/printable.hpp"
#include "base/size_step.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "config/values.hpp"
#include "machine/host_memory.hpp"

namespace ration::admission {
namespace {

Result<void> join_labels(const std::vector<std::string>& labels, std::string& out) {
  for (const std::string& label : labels) {
    if (!is_label(label))
      return fail("E1415", fmt::format("'{}' is not a label.", printable(label)),
                  "Write --label key=value, without commas and control characters.", 2);
    out += (out.empty() ? "" : ",") + label;
  }
  if (out.size() > kMaxLabels)
    return fail("E1415", fmt::format("the labels have more than {} letters together.", kMaxLabels), "Shorten them.", 2);
  return {};
}

/// A variable that makes a framework start small, or that lets it use memory which it would otherwise keep in reserve.
struct FrameworkHint {
  const char* name;
  const char* value;
  bool PlanRequest::*forced_by;  ///< the option that overrides the program's own value; null if there is none
  bool is_hint = true;           ///< false if only that option sets it
  bool (*is_read)(const std::string& own) =
      nullptr;  ///< whether the framework reads the program's own value; null: any
};

/// TensorFlow ignores any other value, also 1 and True.
bool is_word_of_truth(const std::string& own) { return own == "true" || own == "false"; }
bool is_number(const std::string& own) {
  return !own.empty() && own.find_first_not_of("0123456789") == std::string::npos;
}

constexpr FrameworkHint kFrameworkHints[] = {
    {"TF_FORCE_GPU_ALLOW_GROWTH", "true", &PlanRequest::growth, true, is_word_of_truth},
    {"XLA_PYTHON_CLIENT_PREALLOCATE", "false", &PlanRequest::growth},
    // TensorFlow leaves 225 to 1,800 MiB of the visible memory to the system (gpu_device.cc, MinSystemMemory). Under a
    // limit, the system has the rest of the GPU, so TensorFlow's reserve would be wasted.
    {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "128", nullptr, true, is_number},
    // PyTorch before 2.9 reads only the first of these two names.
    {"PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", &PlanRequest::deep, false},
    {"PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync", &PlanRequest::deep, false},
    {"TF_GPU_ALLOCATOR", "cuda_malloc_async", &PlanRequest::deep, false},
    {"XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async", &PlanRequest::deep, false},
};

void set_framework_hints(const PlanRequest& request, Plan& plan) {
  for (const FrameworkHint& hint : kFrameworkHints) {
    const bool is_forced = hint.forced_by != nullptr && request.*hint.forced_by;
    if (!is_forced && !(hint.is_hint && request.framework_hints)) continue;
    const char* own = std::getenv(hint.name);
    const bool is_set = own != nullptr && (hint.is_read == nullptr || hint.is_read(own));
    if (!is_set || is_forced)
      plan.sets[hint.name] = hint.value;
    else
      plan.keeps[hint.name] = own;
  }
  if (!request.growth && !request.framework_hints) return;
  for (const char* name :
       {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "XLA_PYTHON_CLIENT_MEM_FRACTION", "TF_GPU_ALLOCATOR"}) {
    if (const char* own = std::getenv(name); own != nullptr && !plan.sets.contains(name)) plan.keeps[name] = own;
  }
}

// Returns the requested devices, or those that a scheduler has already chosen.
Result<std::vector<machine::Device>> devices_asked_for(const PlanRequest& request, const machine::Machine& machine) {
  if (!request.gpu.empty()) return machine::choose_devices(machine.devices, request.gpu);
  if (std::getenv("CUDA_VISIBLE_DEVICES") != nullptr) return machine::visible_devices(machine.devices);
  return std::vector{machine.devices.front()};
}

Result<void> enter_slice(const PlanRequest& request, const machine::Machine& machine, const book::Store& store,
                         Plan& plan) {
  if (!request.limit.empty() || !request.gpu.empty() || !request.guarantee.empty()) {
    return fail("E1605", "a slice has a GPU, a limit and a guarantee of its own.",
                command({"run", "--slice", request.slice, "--"}) + " …", 2);
  }
  RATION_TRY(const auto slices, read_slices(store));
  std::vector<std::string> names;
  for (const Slice& slice : slices) names.push_back(slice.name);
  const auto slice =
      std::find_if(slices.begin(), slices.end(), [&](const Slice& other) { return other.name == request.slice; });
  if (slice == slices.end()) {
    return fail("E1608",
                fmt::format("there is no slice '{}'.{}", request.slice,
                            names.empty() ? " This node has none."
                                          : fmt::format(" This node has: {}.{}", fmt::join(names, ", "),
                                                        suggestion(request.slice, names))),
                names.empty() ? "ration split 0 --into 4" : "ration split", 3);
  }
  const auto books = store.list();
  if (const auto* other = occupant(books, slice->name); other != nullptr) {
    return fail("E1604",
                fmt::format("slice {} is in use by {} (pid {}, {}).", slice->name, other->contents.name,
                            other->contents.creator.pid, other->contents.command),
                "Choose another slice (ration split shows them), or wait until that workload has ended.", 4);
  }
  const auto device = machine::choose_devices(machine.devices, slice->uuid);
  if (!device)
    return fail("E1608",
                fmt::format("the GPU of slice {} ({}) is no longer in this machine.", slice->name, slice->uuid),
                "ration split", 3);
  plan.slice = slice->name;
  plan.accounts.push_back({device->front(), slice->size, slice->size, std::nullopt, std::nullopt});
  return {};
}

/// Returns `asked` in whole granules of the device; `text` is the typed size. Fails as size_on() does.
Result<Bytes> granules_on(const machine::Device& device, Bytes asked, const std::string& text, const char* what) {
  if (asked > device.total && asked < kUnlimited) {
    return fail("E1104",
                fmt::format("{} {} is more than GPU {} has ({}).", what, text, device.index, format_size(device.total)),
                fmt::format("Use --{} max, or another --gpu (ration ps shows them)", what), 2);
  }
  const Bytes size = round_down(std::min(asked, device.total), kGranule);
  if (size == Bytes{0}) {
    return fail(
        "E1105",
        fmt::format("{} {} is less than one granule of device memory (2.00 MiB), so every request would be denied.",
                    what, text),
        "Give more than a CUDA context needs, such as 1GiB, or leave the option out for all of the GPU.", 2);
  }
  return size;
}

Result<void> enter_devices(const PlanRequest& request, const machine::Machine& machine, const book::Store& store,
                           Plan& plan) {
  RATION_TRY(const auto devices, devices_asked_for(request, machine));
  if (const auto instance = std::find_if(devices.begin(), devices.end(),
                                         [](const machine::Device& each) { return each.mig.has_value(); });
      instance != devices.end() && devices.size() > 1)
    return fail("E1407",
                fmt::format("CUDA shows a program one MIG instance and no other device, but {} devices are chosen.",
                            devices.size()),
                command({"run", "--gpu", instance->mig->label(), "--"}) + " …", 2);
  for (const machine::Device& device : devices) {
    PlannedAccount account{device, {}, {}, std::nullopt, std::nullopt};
    const auto own = request.of_device.find(device.uuid);
    const std::string& wished = own == request.of_device.end() ? request.limit : own->second.limit;
    const std::string& wished_guarantee = own == request.of_device.end() ? request.guarantee : own->second.guarantee;
    const std::string limit_text = wished.empty() ? "max" : wished;
    RATION_TRY(const auto typed, parse_size(limit_text, device.total, device.room()));
    RATION_TRY(const auto limit, granules_on(device, typed, limit_text, "limit"));
    account.limit = limit;
    if (typed < kUnlimited && typed != limit && !wished.empty()) account.typed = typed;
    if (!wished_guarantee.empty()) {
      RATION_TRY(const auto guarantee, guarantee_on(device, wished_guarantee));
      if (guarantee > limit) {
        return fail(
            "E1305",
            fmt::format("the guarantee {} is more than the limit {}.", format_size(guarantee), format_size(limit)),
            fmt::format("--limit {}, or a smaller --guarantee", exact_size(guarantee)), 2);
      }
      account.guarantee = guarantee;
      RATION_TRY(promises_on(device, store).can_add(device, plan.tenant, guarantee));
    }
    plan.accounts.push_back(account);
  }
  return {};
}

}  // namespace

Result<Bytes> size_on(const machine::Device& device, const std::string& text, const char* what) {
  const Result<Bytes> asked = parse_size(text, device.total, device.room());
  return asked ? granules_on(device, *asked, text, what) : asked;
}

Result<Bytes> changed_limit(const machine::Device& device, const std::string& text, Bytes now) {
  if (!is_step(text)) return size_on(device, text);
  const auto step = parse_step(text, device.total, device.room());
  if (!step) return step;
  const Bytes from = std::min(now, device.total);
  if (text.front() == '-' && *step >= from)
    return fail("E1105",
                fmt::format("{} less than the limit {} leaves no memory.", format_size(*step), format_size(from)),
                "Give the new limit as a size: --limit 1GiB", 2);
  const Bytes wanted = text.front() == '+' ? from + *step : from - *step;
  return granules_on(device, wanted, format_size(wanted), "limit");
}

/// The size of a page of host memory.
static constexpr Bytes kPage{4096};

Result<Bytes> host_limit_of(const std::string& text, Bytes now) {
  const Bytes total = machine::host_memory_total(), room = machine::host_memory_available();
  RATION_TRY(Bytes asked,
             is_step(text) ? parse_step(text, total, room, "machine") : parse_size(text, total, room, "machine"));
  if (is_step(text)) {
    const Bytes from = std::min(now, total);
    asked = text.front() == '+' ? from + asked : from - std::min(from, asked);
  }
  if (asked > total && asked < kUnlimited)
    return fail("E1104",
                fmt::format("host limit {} is more than the memory of this machine ({}).", text, format_size(total)),
                "--host-limit max, unlimited, or a smaller size", 2);
  asked = asked < kUnlimited ? round_down(asked, kPage) : kUnlimited;
  if (asked == Bytes{0})
    return fail(
        "E1105",
        fmt::format("host limit {} is less than one page ({}), so every request for pinned memory would be denied.",
                    text, format_size(kPage)),
        "Give more, such as 256MiB, or leave it out for no limit.", 2);
  return asked;
}

Result<DenialAnswer> parse_on_deny(const std::string& text) {
  if (text.empty() || text == "fail") return DenialAnswer{};
  DenialAnswer answer{book::OnDeny::kWait, ~std::uint64_t{0}};
  if (text == "wait") return answer;
  if (text.rfind("wait:", 0) == 0) {
    if (const auto wait = parse_duration(text.substr(5)); wait) {
      answer.wait_ns = *wait;
      return answer;
    }
  }
  return fail("E1408", fmt::format("'{}' is not fail, wait or wait:TIME.", text),
              "Write --on-deny fail, wait or wait:30s.", 2);
}

Result<void> holds_context(Bytes limit, const std::optional<Bytes>& context) {
  if (!context || limit >= *context) return {};
  const Bytes enough = round_up(*context + Bytes{std::uint64_t{128} << 20}, Bytes{std::uint64_t{256} << 20});
  return fail("E1204",
              fmt::format("limit {} is less than one CUDA context needs on this driver ({}).", format_size(limit),
                          format_size(*context)),
              fmt::format("Give at least {}.", exact_size(enough)), 2);
}

bool takes_guarantee_away(const std::string& text) {
  if (text == "none") return true;
  if (text.empty() || text.find_first_of("123456789") != std::string::npos) return false;
  const auto size = parse_size(text, kGranule, kGranule);  // the device's size does not matter here
  return size ? *size == Bytes{0} : text.find_first_not_of("0.") == std::string::npos && text.front() == '0';
}

Result<Bytes> guarantee_on(const machine::Device& device, const std::string& text) {
  if (text == "unlimited")
    return fail("E1102", "a guarantee must be a size: 'unlimited' cannot be kept for a workload.",
                "--guarantee max   keeps the whole GPU, --guarantee 4GiB a part of it", 2);
  return takes_guarantee_away(text) ? Result<Bytes>(Bytes{0}) : size_on(device, text, "guarantee");
}

Promises promises_on(const machine::Device& device, const book::Store& store) {
  Bytes sliced;
  if (const auto slices = read_slices(store)) {
    for (const Slice& slice : *slices)
      if (slice.uuid == device.uuid) sliced += slice.size;
  }
  Promises promises{sliced};
  for (const auto& book : store.list()) {
    if (!book.live || !book.contents.slice.empty()) continue;
    for (const auto& account : book.contents.accounts)
      if (account.device == device.bytes) promises.add_workload(book.contents.tenant, account.guarantee, account.used);
  }
  return promises;
}

Result<Plan> make_plan(const PlanRequest& request, const machine::Machine& machine, const book::Store& store,
                       const ContextCost& measure_context) {
  Plan plan;
  plan.name = request.name;
  plan.tenant = request.tenant.empty() ? "default" : request.tenant;
  for (const std::string* name : {&request.name, static_cast<const std::string*>(&plan.tenant)}) {
    if (name->empty() || config::is_name(*name)) continue;
    return config::not_a_name(*name);
  }
  if (is_number_of_something(request.name))
    return fail(
        "E1409",
        fmt::format("'{}' cannot be the name of a workload: events, denials and places in the queue have such numbers.",
                    request.name),
        command({"run", "--name", "job-" + request.name, "--"}) + " …   cannot be mistaken for one of them", 2);
  if (!request.account.empty() && request.account != "device" && request.account != "heap") {
    return fail("E1416", fmt::format("'{}' is not a value of --account.", request.account),
                "--account device (contexts count) or heap (allocations only)", 2);
  }
  if (request.account == "heap") plan.account_mode = book::AccountMode::kHeap;
  constexpr const char* kPolicies[] = {"resident", "charge", "ignore"};  // in the order of book::ManagedPolicy
  const auto* policy =
      std::find(std::begin(kPolicies), std::end(kPolicies), request.managed.empty() ? "resident" : request.managed);
  if (policy == std::end(kPolicies)) {
    return fail("E1416", fmt::format("'{}' is not a value of --managed.", request.managed),
                "--managed resident (the part that may be on the GPU), charge (all of it) or ignore (none)", 2);
  }
  plan.managed = static_cast<book::ManagedPolicy>(policy - kPolicies);
  RATION_TRY(const auto on_deny, parse_on_deny(request.on_deny));
  plan.on_deny = on_deny.on_deny;
  plan.wait_ns = on_deny.wait_ns;
  if (!request.host_limit.empty()) {
    RATION_TRY(plan.host_limit, host_limit_of(request.host_limit));
  }
  RATION_TRY(join_labels(request.labels, plan.labels));
  const auto entered =
      request.slice.empty() ? enter_devices(request, machine, store, plan) : enter_slice(request, machine, store, plan);
  if (!entered) return tl::unexpected(entered.error());

  std::string visible;
  for (PlannedAccount& account : plan.accounts) {
    visible += (visible.empty() ? "" : ",") + account.device.uuid;
    account.context = machine::context_cost(account.device, machine.driver_version, store.folder());
    if (plan.account_mode == book::AccountMode::kHeap) continue;
    if (!account.context && measure_context) {
      account.context = measure_context(account.device);
    }
    RATION_TRY(holds_context(account.limit, account.context));
  }
  plan.sets["CUDA_VISIBLE_DEVICES"] = visible;
  plan.sets["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
  set_framework_hints(request, plan);
  return plan;
}

}  // namespace ration::admission
