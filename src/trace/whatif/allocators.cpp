#include "trace/whatif/allocators.hpp"

#include <fmt/format.h>

#include "base/strings.hpp"
#include "trace/whatif/cuda_async.hpp"
#include "trace/whatif/pytorch.hpp"
#include "trace/whatif/ration_pool.hpp"
#include "trace/whatif/tensorflow.hpp"

namespace ration::trace {
namespace {

Result<MakeAllocator> pytorch(std::string_view settings) {
  RATION_TRY(const auto parsed, parse_pytorch_settings(settings));
  return make_pytorch(parsed);
}
Result<MakeAllocator> tensorflow(std::string_view settings) {
  RATION_TRY(const auto parsed, parse_tensorflow_settings(settings));
  return make_tensorflow(parsed);
}

struct Known {
  const char* name;
  Grade grade;
  const char* reason;
  Result<MakeAllocator> (*make)(std::string_view settings);
};

/// The known allocators. `bench/whatif/models.py` and `recorded.py` measure the errors of models (docs/benchmarks.md).
constexpr Known kKnown[] = {
    {"pytorch", Grade::kModel, "within 0.1% of PyTorch 2.15 on 6 histories and 4 programs", pytorch},
    {"tensorflow", Grade::kModel,
     "within 1.2% of TensorFlow 2.21 on 6 histories and 3 programs, including the memory that it leaves to the system",
     tensorflow},
    {"cuda_malloc_async", Grade::kModel,
     "within 0.1% of the simulated driver on 6 histories and 6 of 7 programs; the choices of the real driver are not "
     "documented",
     make_cuda_async},
    {"ration", Grade::kExact, "the pool itself ran, with TF_DEVICE_MIN_SYS_MEMORY_IN_MB=0", make_ration_pool},
};

}  // namespace

const std::vector<std::string>& allocator_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Known& known : kKnown) all.emplace_back(known.name);
    return all;
  }();
  return names;
}

Result<NamedAllocator> find_allocator(const std::string& text) {
  const auto parts = split_once(text, ':');
  const std::string_view name = parts ? parts->first : std::string_view(text);
  for (const Known& known : kKnown) {
    if (name != known.name) continue;
    RATION_TRY(auto make, known.make(parts ? parts->second : std::string_view()));
    return NamedAllocator{text, {known.grade, known.reason}, std::move(make)};
  }
  return fail("E1813",
              fmt::format("'{}' is not an allocator that can be tried.{}", name, suggestion(name, allocator_names())),
              fmt::format("--allocator {}, each with its settings", fmt::join(allocator_names(), ", ")), 2);
}

}  // namespace ration::trace
