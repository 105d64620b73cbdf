// Memory that is mapped into sparse and deferred arrays. It is charged when it is created and stays charged while a
// part of an array keeps it alive.
#include <atomic>

#include "driver/cuda_array_abi.hpp"
#include "guard/hooks/after_fork.hpp"
#include "guard/hooks/governor.hpp"
#include "guard/hooks/hooks.hpp"
#include "guard/hooks/table.hpp"

namespace ration::guard {
namespace {

using namespace cuda;

struct Mapping {
  ArrayRegion region;
  std::uint64_t physical = 0;
  // The number drawn before the mapping call. A mapping replaces only mappings with lower numbers.
  std::uint64_t order = 0;
};

Table<Mapping> mappings;  // the key is a number that is never reused
std::atomic<std::uint64_t> last_number{0};

/// Removes one mapping for which `is_meant(mapping)` is true, and copies it to `out`. Returns false if there is no such
/// mapping.
template <typename Meant>
bool take_one(Mapping& out, Meant&& is_meant) noexcept {
  for (;;) {
    std::uint64_t number = 0;
    mappings.each([&](std::uint64_t key, const Mapping& mapping) {
      if (number == 0 && is_meant(mapping)) number = key;
    });
    if (number == 0) return false;
    if (mappings.take(number, out)) return true;  // otherwise another thread took it first
  }
}

/// Ends every mapping in `region` whose order is lower than `order`. The driver unmaps in the order of the stream, so
/// this calls `wait` before the memory of an ended mapping may be freed.
template <typename Wait>
void clear(const ArrayRegion& region, std::uint64_t order, Wait&& wait) noexcept {
  Mapping before;
  while (take_one(before, [&](const Mapping& one) { return one.order < order && overlap(one.region, region); })) {
    wait();
    subtract(before.region, region, [&](const ArrayRegion& part) {
      hold_physical(before.physical);
      mappings.insert(last_number.fetch_add(1) + 1, {part, before.physical, before.order});
    });
    let_go_physical(before.physical);
  }
}

CUresult map_arrays(Symbol symbol, Symbol synchronise, CUarrayMapInfo* entries, unsigned int count,
                    CUstream stream) noexcept {
  auto* call_real = real<cuMemMapArrayAsync_t>(symbol);
  if (!governed() || entries == nullptr || count == 0) return call_real(entries, count, stream);
  const std::uint64_t first = last_number.fetch_add(count) + 1;
  CUresult result = CUDA_SUCCESS;
  {
    const VirtualMemoryChange change;
    for (unsigned int i = 0; i < count; ++i) {
      if (entries[i].memOperationType != CU_MEM_OPERATION_TYPE_MAP) continue;
      const std::uint64_t physical = hold_physical_of(entries[i].memHandle.memHandle);
      if (physical != 0) mappings.insert(first + i, {region_of(entries[i]), physical, first + i});
    }
    result = call_real(entries, count, stream);
  }
  if (result != CUDA_SUCCESS) {
    // If the call had several entries, the driver may have mapped some of them, so all of them count as mapped until
    // their array is destroyed.
    Mapping none;
    if (count == 1 && mappings.take(first, none)) let_go_physical(none.physical);
    return result;
  }
  bool waited = false;
  for (unsigned int i = 0; i < count; ++i) {
    clear(region_of(entries[i]), first + i, [&] {
      if (!waited) (void)real<cuStreamSynchronize_t>(synchronise)(stream);
      waited = true;
    });
  }
  return result;
}

}  // namespace

std::uint64_t last_array_mapping() noexcept { return last_number.load(); }

void array_mappings_are_gone(std::uint64_t array, std::uint64_t last) noexcept {
  Mapping gone;
  while (take_one(gone, [&](const Mapping& one) { return one.region.array == array && one.order <= last; }))
    let_go_physical(gone.physical);
}

[[gnu::init_priority(101)]] const AfterFork forget([]() noexcept { mappings.abandon(); });

}  // namespace ration::guard

using namespace ration::guard;
using namespace ration::cuda;

RATION_HOOK CUresult cuMemMapArrayAsync(CUarrayMapInfo* entries, unsigned int count, CUstream stream) {
  return map_arrays(Symbol::cuMemMapArrayAsync, Symbol::cuStreamSynchronize, entries, count, stream);
}
RATION_HOOK CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo* entries, unsigned int count, CUstream stream) {
  return map_arrays(Symbol::cuMemMapArrayAsync_ptsz, Symbol::cuStreamSynchronize_ptsz, entries, count, stream);
}
