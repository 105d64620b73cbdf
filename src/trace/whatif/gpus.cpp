#include "trace/whatif/gpus.hpp"

#include <fmt/format.h>

#include <optional>

#include "base/gpu_models.hpp"
#include "base/printable.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"

namespace ration::trace {
namespace {

constexpr Bytes kLargest{(std::uint64_t{1} << 50) - 1};  // a share of kUnlimited is larger

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string fix() {
  return fmt::format("--gpu 12GiB, --gpu A100-40:2, --gpu T4:15GiB*3; models: {}; any other with its size: NAME:24GiB",
                     gpu_model_names());
}

tl::unexpected<Error> no_gpu(std::string_view text) {
  return fail("E1308", fmt::format("'{}' does not describe GPUs.", text), fix(), 2);
}

Result<void> add_kind(std::string_view entry, std::vector<NamedGpu>& gpus) {
  std::string rest(entry);
  auto count = take_count(rest, '*');
  if (!count) return no_gpu(entry);
  const std::size_t colon = rest.find(':');
  std::string name = rest.substr(0, colon);
  std::string behind = colon == std::string::npos ? "" : rest.substr(colon + 1);
  const auto model = find_gpu_model(name);
  if (!model && colon == std::string::npos && !name.empty() && is_digits(name.substr(0, 1))) std::swap(name, behind);
  const bool is_sized = !behind.empty() && !is_digits(behind);
  if ((!model && !is_sized) || !is_printable(name) || (colon != std::string::npos && (behind.empty() || name.empty())))
    return no_gpu(entry);
  Bytes usable = model ? model->total : kUnlimited;  // a share of an unknown model is rejected below
  if (model && is_digits(behind) && rest == entry) {
    count = take_count(rest, ':');
    if (!count) return no_gpu(entry);
  } else if (!behind.empty()) {
    const auto size = parse_size(behind, usable, usable);
    if (!size) return fail(size.error().id, size.error().what, fix(), 2);
    usable = round_down(*size, kGranule);
  }
  if (usable == Bytes{0} || usable > kLargest) return no_gpu(entry);
  if (gpus.size() + static_cast<std::size_t>(*count) > static_cast<std::size_t>(kMostOfOneKind)) return no_gpu(entry);
  for (int i = 0; i < *count; ++i) gpus.push_back({name, usable});
  return {};
}

}  // namespace

std::optional<int> take_count(std::string& text, char mark) {
  const std::size_t at = text.rfind(mark);
  if (at == std::string::npos) return 1;
  const auto count = parse_number<int>(std::string_view(text).substr(at + 1));
  if (!count || *count < 1 || *count > kMostOfOneKind) return std::nullopt;
  text.resize(at);
  return count;
}

Result<std::vector<NamedGpu>> parse_gpus(const std::string& text) {
  std::vector<NamedGpu> gpus;
  for (const std::string_view entry : split(text, ',')) RATION_TRY(add_kind(entry, gpus));
  return gpus;
}

}  // namespace ration::trace
