// Finds out whether programs of known sizes fit on GPUs, and where. A recording counts with the limit that it needs.
//
// Promises: no GPU gets more than it holds; every program is placed as often as asked, or listed as left over; with up
// to kExactPrograms "does not fit" is certain, with more it is the result of best-fit-decreasing.
// Not promised: the fewest GPUs, or that limits above the guarantees can be reached (see `unreachable`).
#pragma once

#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "trace/whatif/gpus.hpp"

namespace ration::trace {

inline constexpr std::size_t kExactPrograms = 16;

struct SizedProgram {
  std::string name;
  Bytes guarantee, limit;  ///< of each instance; limit >= guarantee
  int count = 1;
};

struct FittedGpu {
  NamedGpu gpu;
  std::vector<SizedProgram> programs;  ///< with the count of those on this GPU
  Bytes spare;
};

/// A limit that the neighbours' guarantees make unreachable: `reachable` is the most on the worst of its GPUs.
struct UnreachableLimit {
  std::string name;
  std::size_t gpu = 0;
  Bytes limit, reachable;
};

struct Fitting {
  bool fits = false;
  Bytes needed, available;
  std::vector<FittedGpu> gpus;
  std::vector<SizedProgram> left_over;
  std::vector<UnreachableLimit> unreachable;
  int more_gpus = 0;  ///< further GPUs of the largest kind with which it fits; 0 if it does, or if no number is enough
};

/// Places the programs tightly, so that GPUs stay empty.
[[nodiscard]] Fitting fit(const std::vector<NamedGpu>& gpus, const std::vector<SizedProgram>& programs);

/// Parses `nlp=16GiB:30GiB` or `jup=4GiB*6`: guarantee, limit (default: the same), count. Fails with E1307, for example
/// for a share (`50%`) of GPUs of different sizes, with E1305, and as parse_size() does.
[[nodiscard]] Result<SizedProgram> parse_program(const std::string& text, const std::vector<NamedGpu>& gpus);

}  // namespace ration::trace
