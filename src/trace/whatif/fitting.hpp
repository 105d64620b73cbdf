// Finds out whether programs of known sizes fit on GPUs, and where. A recording counts with the limit that it needs.
//
// Promises: no GPU gets more than it holds; every program is placed as often as asked, or listed as left over; for up
// to kExactPrograms instances, "does not fit" is the result of an exhaustive search, which is certain unless the search
// runs out of steps; for more instances, it is the result of best-fit-decreasing.
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
  std::vector<SizedProgram> programs;  ///< `count` is the number of instances on this GPU
  Bytes spare;
};

/// A limit that the neighbours' guarantees make unreachable. `gpu` is the GPU on which the program can reach least, and
/// `reachable` the highest limit that it can reach there.
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
  int more_gpus = 0;  ///< GPUs of the largest kind to add so that all fit; 0 if none are needed or 64 do not suffice
};

/// Places the programs tightly, so that whole GPUs stay empty.
[[nodiscard]] Fitting fit(const std::vector<NamedGpu>& gpus, const std::vector<SizedProgram>& programs);

/// Parses `nlp=16GiB:30GiB` or `jup=4GiB*6`: guarantee, limit (by default the guarantee), count. Fails with E1305 if
/// the guarantee exceeds the limit. Fails with E1307 if a size is a share (`50%`) but the GPUs differ in size, or if
/// the text has another form. Fails as parse_size() does if a size is invalid.
[[nodiscard]] Result<SizedProgram> parse_program(const std::string& text, const std::vector<NamedGpu>& gpus);

}  // namespace ration::trace
