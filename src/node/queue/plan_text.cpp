// Parses the arguments of a plan.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/command.hpp"
#include "base/gpu_models.hpp"
#include "base/printable.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "node/queue/placement.hpp"

namespace ration::node {
namespace {

/// Removes a count such as `*6` from the end of the text and returns it; 1 if there is none. Returns nothing for a
/// count that is not from 1 to kMaxPerTenant.
std::optional<int> take_count(std::string& text, char mark) {
  const std::size_t at = text.rfind(mark);
  if (at == std::string::npos) return 1;
  int count = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + at + 1, end, count);
  if (parsed.ec != std::errc{} || parsed.ptr != end || count < 1 || count > kMaxPerTenant) return std::nullopt;
  text.resize(at);
  return count;
}

bool digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

tl::unexpected<Error> no_tenant(const std::string& text) {
  return fail("E1307", fmt::format("'{}' is not a tenant to plan with.", text),
              "--tenant NAME=GUARANTEE[:LIMIT][*COUNT]: nlp=16GiB:30GiB, jup=4GiB*6", 2);
}

tl::unexpected<Error> no_device(const std::string& text) {
  return fail("E1308", fmt::format("'{}' is not a GPU to plan with.", text),
              fmt::format("--gpu A100-40:2, --gpu T4:15GiB*3; models: {}; any other with its size: NAME:24GiB",
                          gpu_model_names()),
              2);
}

}  // namespace

Result<std::vector<PlanDevice>> parse_plan_devices(const std::string& text) {
  std::vector<PlanDevice> devices;
  for (const std::string_view part : split(text, ',')) {
    const std::string entry(part);
    std::string rest = entry;
    auto count = take_count(rest, '*');
    if (!count) return no_device(entry);
    const std::size_t colon = rest.find(':');
    const std::string name = rest.substr(0, colon), behind = colon == std::string::npos ? "" : rest.substr(colon + 1);
    const auto model = find_gpu_model(name);
    const bool sized = !behind.empty() && !digits(behind);
    if ((!model && !sized) || name.empty() || !is_printable(name) || (colon != std::string::npos && behind.empty()))
      return no_device(entry);
    Bytes usable = model ? model->total : kUnlimited;  // a share needs a known model
    if (model && digits(behind) && rest == entry) {
      count = take_count(rest, ':');
      if (!count) return no_device(entry);
    } else if (!behind.empty()) {
      RATION_TRY(const auto size, parse_size(behind, usable, usable));
      usable = round_down(size, kGranule);
      constexpr Bytes kAbsurd{std::uint64_t{1} << 50};  // a share of an unknown model also yields such a size
      if (usable == Bytes{0} || usable >= kAbsurd) return no_device(entry);
    }
    if (devices.size() + static_cast<std::size_t>(*count) > static_cast<std::size_t>(kMaxPerTenant))
      return no_device(entry);
    for (int i = 0; i < *count; ++i) devices.push_back({static_cast<int>(devices.size()), name, usable});
  }
  return devices;
}

Result<PlanTenant> parse_plan_tenant(const std::string& text, const std::vector<PlanDevice>& devices) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals > 59) return no_tenant(text);
  PlanTenant tenant;
  tenant.name = text.substr(0, equals);
  std::string sizes = text.substr(equals + 1);
  const auto count = take_count(sizes, '*');
  if (!count) return no_tenant(text);
  tenant.count = *count;
  const bool alike = std::all_of(devices.begin(), devices.end(),
                                 [&](const PlanDevice& device) { return device.usable == devices.front().usable; });
  const bool share = sizes.find('%') != std::string::npos || sizes.find("max") != std::string::npos;
  if (share && !alike) {
    return fail("E1307", fmt::format("'{}': a share needs GPUs of one size.", text),
                "Give the size: --tenant nlp=16GiB", 2);
  }
  const Bytes whole = devices.empty() ? Bytes{0} : devices.front().usable;
  const std::size_t colon = sizes.find(':');
  RATION_TRY(const auto guarantee, parse_size(sizes.substr(0, colon), whole, whole));
  tenant.guarantee = round_up(guarantee, kGranule);
  tenant.limit = tenant.guarantee;
  if (guarantee >= kUnlimited) return no_tenant(text);
  if (colon == std::string::npos) return tenant;
  RATION_TRY(const auto limit, parse_size(sizes.substr(colon + 1), whole, whole));
  tenant.limit = round_down(limit, kGranule);
  if (tenant.limit < tenant.guarantee) {
    return fail("E1305",
                fmt::format("the guarantee of {}, {}, is above its limit, {}.", tenant.name,
                            format_size(tenant.guarantee), format_size(tenant.limit)),
                "Write the guarantee first: --tenant nlp=16GiB:30GiB", 2);
  }
  return tenant;
}

std::string plan_tenant_text(const PlanTenant& tenant) {
  std::string text = tenant.name + "=" + exact_size(tenant.guarantee);
  if (tenant.limit != tenant.guarantee) text += ":" + exact_size(tenant.limit);
  if (tenant.count != 1) text += fmt::format("*{}", tenant.count);
  return text;
}

}  // namespace ration::node
