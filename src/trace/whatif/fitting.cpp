#include "trace/whatif/fitting.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"

namespace ration::trace {
namespace {

/// The GPU of each instance; kUnplaced if no GPU has room for the instance.
using Assignment = std::vector<std::size_t>;
constexpr std::size_t kUnplaced = ~std::size_t{0};
constexpr int kMaxSteps = 200'000;  // steps of the exact search, which take tens of milliseconds
constexpr int kMaxMoreGpus = 64;
constexpr std::size_t kLongestName = 59;

/// One instance of a program.
struct Instance {
  std::size_t program;
  Bytes guarantee;
};

std::vector<Instance> instances_of(const std::vector<SizedProgram>& programs) {
  std::vector<Instance> instances;
  for (std::size_t p = 0; p < programs.size(); ++p)
    instances.insert(instances.end(), static_cast<std::size_t>(std::max(programs[p].count, 0)),
                     {p, round_up(programs[p].guarantee, kGranule)});
  std::stable_sort(instances.begin(), instances.end(),
                   [](const Instance& left, const Instance& right) { return left.guarantee > right.guarantee; });
  return instances;
}

std::vector<Bytes> room_of(const std::vector<NamedGpu>& gpus) {
  std::vector<Bytes> room;
  for (const NamedGpu& gpu : gpus) room.push_back(gpu.usable);
  return room;
}

bool is_complete(const Assignment& assignment) {
  return std::find(assignment.begin(), assignment.end(), kUnplaced) == assignment.end();
}

/// Packs the instances by best fit, the largest first.
Assignment pack(std::vector<Bytes> room, const std::vector<Instance>& instances) {
  Assignment assignment(instances.size(), kUnplaced);
  for (std::size_t i = 0; i < instances.size(); ++i) {
    std::size_t& best = assignment[i];
    for (std::size_t gpu = 0; gpu < room.size(); ++gpu)
      if (room[gpu] >= instances[i].guarantee && (best == kUnplaced || room[gpu] < room[best])) best = gpu;
    if (best != kUnplaced) room[best] -= instances[i].guarantee;
  }
  return assignment;
}

/// Searches exhaustively until a packing fits or the steps run out.
class Search {
 public:
  Search(std::vector<Bytes> room, const std::vector<Instance>& instances)
      : instances_(instances), room_(std::move(room)), assignment_(instances.size(), kUnplaced) {}
  bool run() { return from(0); }
  [[nodiscard]] const Assignment& assignment() const { return assignment_; }

 private:
  bool from(std::size_t at) {
    if (at == instances_.size()) return true;
    if (++steps_ > kMaxSteps) return false;
    for (std::size_t gpu = 0; gpu < room_.size(); ++gpu) {
      // GPUs with equal room are interchangeable.
      const auto end = room_.begin() + static_cast<std::ptrdiff_t>(gpu);
      if (room_[gpu] < instances_[at].guarantee || std::find(room_.begin(), end, room_[gpu]) != end) continue;
      room_[gpu] -= instances_[at].guarantee;
      assignment_[at] = gpu;
      if (from(at + 1)) return true;
      room_[gpu] += instances_[at].guarantee;
    }
    assignment_[at] = kUnplaced;
    return false;
  }

  const std::vector<Instance>& instances_;
  std::vector<Bytes> room_;
  Assignment assignment_;
  int steps_ = 0;
};

Assignment assign(const std::vector<NamedGpu>& gpus, const std::vector<Instance>& instances) {
  Assignment packed = pack(room_of(gpus), instances);
  if (is_complete(packed) || instances.size() > kExactPrograms) return packed;
  Search search(room_of(gpus), instances);
  return search.run() ? search.assignment() : packed;
}

/// Counts one more instance of a program.
void add(std::vector<SizedProgram>& counted, const SizedProgram& program) {
  for (SizedProgram& other : counted) {
    if (other.name == program.name && other.guarantee == program.guarantee && other.limit == program.limit) {
      ++other.count;
      return;
    }
  }
  counted.push_back({program.name, program.guarantee, program.limit, 1});
}

std::vector<UnreachableLimit> unreachable_in(const std::vector<FittedGpu>& gpus) {
  std::vector<UnreachableLimit> found;
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    for (const SizedProgram& program : gpus[gpu].programs) {
      const Bytes reachable = program.guarantee + gpus[gpu].spare;
      if (reachable >= std::min(program.limit, gpus[gpu].gpu.usable)) continue;
      const auto known = std::find_if(found.begin(), found.end(),
                                      [&](const UnreachableLimit& other) { return other.name == program.name; });
      if (known == found.end())
        found.push_back({program.name, gpu, program.limit, reachable});
      else if (reachable < known->reachable)
        *known = {program.name, gpu, program.limit, reachable};
    }
  }
  return found;
}

int more_gpus_for(std::vector<NamedGpu> gpus, const std::vector<Instance>& instances) {
  if (gpus.empty()) return 0;
  const NamedGpu largest = *std::max_element(
      gpus.begin(), gpus.end(), [](const NamedGpu& left, const NamedGpu& right) { return left.usable < right.usable; });
  for (int more = 1; more <= kMaxMoreGpus; ++more) {
    gpus.push_back(largest);
    if (is_complete(assign(gpus, instances))) return more;
  }
  return 0;
}

tl::unexpected<Error> no_program(const std::string& text) {
  return fail("E1307", fmt::format("'{}' is neither a recording nor a size.", text),
              "ration whatif NAME=GUARANTEE[:LIMIT][*COUNT]: nlp=16GiB:30GiB, jup=4GiB*6", 2);
}

}  // namespace

Fitting fit(const std::vector<NamedGpu>& gpus, const std::vector<SizedProgram>& programs) {
  Fitting result;
  for (const NamedGpu& gpu : gpus) {
    result.available += gpu.usable;
    result.gpus.push_back({gpu, {}, gpu.usable});
  }
  const auto instances = instances_of(programs);
  const Assignment assignment = assign(gpus, instances);
  result.fits = is_complete(assignment);
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const SizedProgram& program = programs[instances[i].program];
    result.needed += instances[i].guarantee;
    if (assignment[i] == kUnplaced) {
      add(result.left_over, program);
      continue;
    }
    FittedGpu& gpu = result.gpus[assignment[i]];
    add(gpu.programs, program);
    gpu.spare -= instances[i].guarantee;
  }
  result.unreachable = unreachable_in(result.gpus);
  if (!result.fits) result.more_gpus = more_gpus_for(gpus, instances);
  return result;
}

Result<SizedProgram> parse_program(const std::string& text, const std::vector<NamedGpu>& gpus) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals > kLongestName) return no_program(text);
  SizedProgram program;
  program.name = text.substr(0, equals);
  std::string sizes = text.substr(equals + 1);
  const auto count = take_count(sizes, '*');
  if (!count) return no_program(text);
  program.count = *count;
  const bool alike =
      std::all_of(gpus.begin(), gpus.end(), [&](const NamedGpu& gpu) { return gpu.usable == gpus.front().usable; });
  if ((sizes.find('%') != std::string::npos || sizes.find("max") != std::string::npos) && !alike)
    return fail("E1307", fmt::format("'{}' is a share of a GPU, but the GPUs differ in size.", text),
                "Give the size: nlp=16GiB", 2);
  const Bytes whole = gpus.empty() ? Bytes{0} : gpus.front().usable;
  const std::size_t colon = sizes.find(':');
  RATION_TRY(const auto guarantee, parse_size(sizes.substr(0, colon), whole, whole));
  if (guarantee >= kUnlimited) return no_program(text);
  program.guarantee = program.limit = round_up(guarantee, kGranule);
  if (colon == std::string::npos) return program;
  RATION_TRY(const auto limit, parse_size(sizes.substr(colon + 1), whole, whole));
  program.limit = round_down(limit, kGranule);
  if (program.limit < program.guarantee)
    return fail("E1305",
                fmt::format("{}: the guarantee {} is more than the limit {}.", program.name,
                            format_size(program.guarantee), format_size(program.limit)),
                "Write the guarantee first: nlp=16GiB:30GiB", 2);
  return program;
}

}  // namespace ration::trace
