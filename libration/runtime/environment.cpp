#include "runtime/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/strings.hpp"
#include "base/units.hpp"
#include "ration/runtime.hpp"

namespace ration::runtime {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

std::optional<bool> truth(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  if (*text == "true" || *text == "True" || *text == "1") return true;
  if (*text == "false" || *text == "False" || *text == "0") return false;
  return std::nullopt;
}

template <typename Number>
std::optional<Number> number(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  Number value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  return error == std::errc() && end == text->data() + text->size() ? std::optional<Number>(value) : std::nullopt;
}

/// Returns the whole number in `text`. Returns nullopt if there is none, or if that many GiB are too many bytes for 64
/// bits.
std::optional<std::int64_t> whole(const std::optional<std::string>& text) {
  const auto value = number<std::int64_t>(text);
  return value && *value < (std::int64_t{1} << 33) ? value : std::nullopt;
}

std::optional<double> share(const std::optional<std::string>& text) {
  const auto value = number<double>(text);
  return value && *value > 0 ? value : std::nullopt;
}

bool is_one_of(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// The valid values of a variable.
struct Kind {
  const char* form;  ///< the words in a sentence about an invalid value
  bool (*accepts)(const std::string& text);
};

constexpr Kind kTruth{"true or false", [](const std::string& text) { return truth(text).has_value(); }};
constexpr Kind kWordOfTruth{"true or false", [](const std::string& text) {
                              return is_one_of(text, {"true", "false"});
                            }};
constexpr Kind kMebibytes{"a whole number of MiB, such as 4096",
                          [](const std::string& text) { return whole(text).has_value(); }};
constexpr Kind kGibibytes{"a whole number of GiB, such as 16",
                          [](const std::string& text) { return whole(text).has_value(); }};
constexpr Kind kShare{"a share above 0, such as 0.5", [](const std::string& text) { return share(text).has_value(); }};
constexpr Kind kAllocator{"cuda_malloc_async, cuda_malloc or memory_guard", [](const std::string& text) {
                            return is_one_of(text, {"cuda_malloc_async", "cuda_malloc", "memory_guard"});
                          }};
constexpr Kind kXlaAllocator{"default, bfc, cuda_async, vmm or platform", [](const std::string& text) {
                               return is_one_of(text, {"default", "bfc", "cuda_async", "vmm", "platform"});
                             }};

struct Variable {
  const char* name;
  const Kind& kind;
  const char* otherwise;  ///< what holds if the value is invalid
  bool limits = false;    ///< true if the variable limits ration's pool; no pool is made if the value is invalid
};

constexpr std::array kVariables{
    Variable{"TF_PER_DEVICE_MEMORY_LIMIT_MB", kMebibytes,
             "TensorFlow ends the process over it, and ration's pool is not made", true},
    Variable{"XLA_PYTHON_CLIENT_MEM_FRACTION", kShare, "ration's pool is not made with it", true},
    Variable{"XLA_CLIENT_MEM_FRACTION", kShare, "ration's pool is not made with it", true},
    Variable{"TF_GPU_HOST_MEM_LIMIT_IN_MB", kMebibytes, "TensorFlow takes up to 128 GiB of pinned host memory"},
    Variable{"XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB", kGibibytes, "XLA takes up to 64 GiB of pinned host memory"},
    Variable{"XLA_PJRT_GPU_HOST_MEMORY_PREALLOCATE", kTruth, "XLA takes pinned host memory as it needs it"},
    Variable{"TF_FORCE_GPU_ALLOW_GROWTH", kWordOfTruth, "TensorFlow ignores it"},
    Variable{"XLA_PYTHON_CLIENT_PREALLOCATE", kTruth, "ration's pool ignores it"},
    Variable{"TF_DEVICE_MIN_SYS_MEMORY_IN_MB", kMebibytes,
             "TensorFlow and ration's pool leave what they leave without it"},
    Variable{"TF_GPU_ALLOCATOR", kAllocator, "TensorFlow and ration's pool use the allocator of their own"},
    Variable{"XLA_PYTHON_CLIENT_ALLOCATOR", kXlaAllocator, "ration's pool ignores it"},
    Variable{"TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC", kMebibytes, "nothing is taken at the start"},
    Variable{"TF_ENABLE_GPU_GARBAGE_COLLECTION", kTruth, "it counts as true"}};

/// Returns the sentence about a variable with an invalid value, or nullopt.
std::optional<std::string> problem_of(const Variable& each) {
  const auto text = variable(each.name);
  if (!text || each.kind.accepts(*text)) return std::nullopt;
  return fmt::format("{}={} is not {}: {}.", each.name, *text, each.kind.form, each.otherwise);
}

}  // namespace

/// Reads PYTORCH_ALLOC_CONF, formerly PYTORCH_CUDA_ALLOC_CONF:
/// "backend:cudaMallocAsync,garbage_collection_threshold:0.8". Its other settings concern split blocks and segments
/// that cannot grow, which the pool does not have.
void Environment::read_pytorch() {
  auto text = variable("PYTORCH_ALLOC_CONF");
  if (!text) text = variable("PYTORCH_CUDA_ALLOC_CONF");
  if (!text) return;
  for (const std::string_view entry : split(*text, ',')) {
    const auto setting = split_once(entry, ':');
    if (!setting) continue;
    const auto [key, value] = *setting;
    const auto part = number<double>(std::string(value));
    const bool is_share = part && *part > 0 && *part <= 1;
    if (key == "backend" && value == "cudaMallocAsync") async = true;
    if (key == "garbage_collection_threshold" && is_share) reclaim_above = *part;
    if (key == "per_process_memory_fraction" && is_share) fraction = part;
  }
}

Environment Environment::read() {
  for (const Variable& each : kVariables) {
    if (const auto problem = each.limits ? problem_of(each) : std::nullopt) throw InvalidArgumentError(*problem);
  }
  Environment result;
  result.read_pytorch();
  result.moves = truth(variable("TF_ENABLE_GPU_GARBAGE_COLLECTION")).value_or(true);
  if (const auto preallocate = truth(variable("XLA_PYTHON_CLIENT_PREALLOCATE"))) result.force_growth = !*preallocate;
  if (const auto growth = truth(variable("TF_FORCE_GPU_ALLOW_GROWTH"))) result.force_growth = growth;
  if (const auto reserve = whole(variable("TF_DEVICE_MIN_SYS_MEMORY_IN_MB")); reserve && *reserve >= 0)
    result.reserve_mib = static_cast<std::uint64_t>(*reserve);
  std::optional<double> xla_fraction;  // the smaller of the two variables
  for (const char* name : {"XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"}) {
    if (const auto each = share(variable(name))) xla_fraction = std::min(*each, xla_fraction.value_or(*each));
  }
  if (xla_fraction) result.fraction = xla_fraction;
  if (const auto limit = whole(variable("TF_PER_DEVICE_MEMORY_LIMIT_MB")); limit && *limit > 0)
    result.device_limit = Bytes{static_cast<std::uint64_t>(*limit) << 20};
  const auto xla = variable("XLA_PYTHON_CLIENT_ALLOCATOR");
  result.async = result.async || variable("TF_GPU_ALLOCATOR") == "cuda_malloc_async" || xla == "cuda_async";
  result.direct = xla == "platform";
  if (const auto mib = whole(variable("TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC")); mib && *mib >= 1)
    result.preallocate_mib = static_cast<std::uint64_t>(*mib);
  if (const auto text = variable("RATION_MIN_BLOCK")) {
    if (const auto size = parse_size(*text, Bytes{0}, Bytes{0})) result.min_block = *size;
  }
  return result;
}

std::vector<std::string> Environment::problems() {
  std::vector<std::string> result;
  for (const Variable& each : kVariables) {
    if (auto problem = problem_of(each)) result.push_back(std::move(*problem));
  }
  const auto python = variable("XLA_PYTHON_CLIENT_MEM_FRACTION"), client = variable("XLA_CLIENT_MEM_FRACTION");
  if (const auto one = share(python), other = share(client); one && other && *one != *other) {
    result.push_back(
        fmt::format("XLA_PYTHON_CLIENT_MEM_FRACTION={} and XLA_CLIENT_MEM_FRACTION={} contradict each other: the "
                    "smaller holds in ration's pool.",
                    *python, *client));
  }
  const auto preallocated = variable("TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC");
  if (const auto allocator = variable("TF_GPU_ALLOCATOR"); preallocated && allocator != "cuda_malloc_async") {
    result.push_back(
        fmt::format("TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC={} does nothing in TensorFlow without "
                    "TF_GPU_ALLOCATOR=cuda_malloc_async.",
                    *preallocated));
  }
  return result;
}

}  // namespace ration::runtime
