#include "managed.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "capture.hpp"
#include "stream_time.hpp"

namespace ration::sim {
namespace {

using namespace cuda;

constexpr int kOnHost = -1;
constexpr int kNowhere = -2;  // CU_DEVICE_INVALID

// The largest size of managed memory in one process, as a multiple of the device's memory. It is bounded because the
// host's memory is limited, too.
constexpr std::uint64_t kMaxOversubscription = 16;

/// A granule of 2 MiB of the process's addresses. It is wholly on one device or wholly on the host.
struct Granule {
  explicit Granule(std::uint64_t at) : start(at) {}
  ~Granule() { ::munmap(reinterpret_cast<void*>(start), kGranule.count()); }
  Granule(const Granule&) = delete;
  Granule& operator=(const Granule&) = delete;
  const std::uint64_t start;
  int place = kOnHost;
};

struct Managed {
  std::uint64_t size = 0;
  Context* context = nullptr;
  std::vector<std::shared_ptr<Granule>> granules;
  std::vector<int> preferred;  // per granule: an ordinal, kOnHost or kNowhere
};

/// The place for the next small block of a context. Small blocks share a granule.
struct Nursery {
  std::shared_ptr<Granule> granule;
  std::uint64_t used = 0;
};
std::map<Context*, Nursery>& nurseries = *new std::map<Context*, Nursery>;

std::map<std::uint64_t, Managed>& all() {
  static auto* kept = new std::map<std::uint64_t, Managed>;  // never destroyed: threads may copy while the program ends
  return *kept;
}
std::atomic<std::size_t> block_count{0};
std::uint64_t on_device[kMaxDevices];  // in granules, as far as this process knows

/// Marks granules as being on the host, as many as were evicted for other processes since the last call.
void learn_of_evictions() {
  for (int device = 0; device < static_cast<int>(Node::get()->models().size()); ++device) {
    if (on_device[device] == 0) continue;
    const std::uint64_t left = Node::get()->managed(device).count() >> 21;
    for (auto block = all().begin(); on_device[device] > left && block != all().end(); ++block)
      for (const auto& granule : block->second.granules) {
        if (granule->place != device || on_device[device] <= left) continue;
        granule->place = kOnHost;
        --on_device[device];
      }
  }
}

using GranuleList = std::vector<Granule*>;

void move_to_host(const GranuleList& granules) {
  learn_of_evictions();
  for (int device = 0; device < static_cast<int>(Node::get()->models().size()); ++device) {
    const auto leave = static_cast<std::uint64_t>(std::count_if(
        granules.begin(), granules.end(), [&](const Granule* granule) { return granule->place == device; }));
    if (leave > 0) Node::get()->give_managed(device, kGranule * leave);
    on_device[device] -= leave;
  }
  for (Granule* granule : granules) granule->place = kOnHost;
}

/// Moves granules to the device, as many of them as it has room for.
void move_to_device(int device, GranuleList granules) {
  learn_of_evictions();
  std::erase_if(granules, [&](const Granule* granule) { return granule->place == device; });
  if (granules.empty()) return;
  granules.resize(Node::get()->take_managed(device, kGranule * granules.size()).count() >> 21);
  move_to_host(granules);
  for (Granule* granule : granules) granule->place = device;
  on_device[device] += granules.size();
}

/// Returns the block that contains the address, or end().
auto find(std::uint64_t address) {
  auto found = all().upper_bound(address);
  if (found == all().begin() || address >= (--found)->first + found->second.size) return all().end();
  return found;
}

/// Calls `visit(block, index)` for every granule that overlaps the range.
template <typename Visit>
void each_granule(std::uint64_t address, std::uint64_t size, Visit&& visit) {
  for (auto found = find(address); found != all().end() && found->first < address + size; ++found) {
    auto& [start, block] = *found;
    const std::uint64_t first = start & ~(kGranule.count() - 1);
    const std::uint64_t last = std::min(address + size, start + block.size) - 1;
    for (std::uint64_t index = (std::max(address, start) - first) >> 21; index <= (last - first) >> 21; ++index)
      visit(block, index);
  }
}

template <typename Wanted>
GranuleList granules_in(std::uint64_t address, std::uint64_t size, Wanted&& wanted) {
  GranuleList granules;
  each_granule(address, size, [&](Managed& block, std::uint64_t index) {
    if (wanted(block, index)) granules.push_back(block.granules[index].get());
  });
  return granules;
}

bool is_any(const Managed&, std::uint64_t) { return true; }
bool may_move(const Managed& block, std::uint64_t index) { return block.preferred[index] != kOnHost; }

/// Reserves new addresses in whole granules, aligned to granules.
std::vector<std::shared_ptr<Granule>> map_granules(std::uint64_t count) {
  const std::uint64_t extent = count << 21;
  // Maps one granule more, so that the range can be aligned, and unmaps the excess. If the mapping is aligned already,
  // unmaps its first granule and not its last, so that blocks lie side by side.
  void* range = ::mmap(nullptr, extent + kGranule.count(), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return {};
  const auto mapped = reinterpret_cast<std::uint64_t>(range),
             start = round_down(Bytes{mapped} + kGranule, kGranule).count();
  if (start > mapped) ::munmap(range, start - mapped);
  ::munmap(reinterpret_cast<void*>(start + extent), mapped + kGranule.count() - start);
  std::vector<std::shared_ptr<Granule>> granules;
  for (std::uint64_t i = 0; i < count; ++i) granules.push_back(std::make_shared<Granule>(start + (i << 21)));
  return granules;
}

// Values of CUmem_advise.
constexpr int kSetPreferred = 3, kUnsetPreferred = 4;

// Values of CUmem_range_attribute.
constexpr int kReadMostly = 1, kPreferredLocation = 2;

bool names_host(CUmemLocation location) { return location.type != CU_MEM_LOCATION_TYPE_DEVICE; }
CUmemLocation location_of(CUdevice device) {
  return device < 0 ? CUmemLocation{CU_MEM_LOCATION_TYPE_HOST, 0} : CUmemLocation{CU_MEM_LOCATION_TYPE_DEVICE, device};
}

/// Checks a range for advice or a move. Returns an error unless managed memory covers the whole range.
CUresult check(CUdeviceptr address, std::size_t size, const char* function) {
  if (const CUresult state = ready(size, function); state != CUDA_SUCCESS) return state;
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  // A range may span blocks that lie side by side, each with its own pages.
  const auto is_managed = [](std::uint64_t at, Allocation& out) { return find_allocation(at, out) && out.managed; };
  Allocation found;
  for (std::uint64_t at = address, left = size; is_managed(at, found);) {
    const std::uint64_t end = found.start + found.size;
    if (left <= end - at) return CUDA_SUCCESS;
    const std::uint64_t next = is_managed(end, found) ? end : round_up(Bytes{end}, kGranule).count();
    if (left <= next - at) break;
    left -= next - at;
    at = next;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult advise(CUdeviceptr address, std::size_t size, int advice, CUmemLocation location,
                const char* function = __builtin_FUNCTION()) {
  if (const CUresult result = check(address, size, function); result != CUDA_SUCCESS) return result;
  if (advice != kSetPreferred && advice != kUnsetPreferred) return CUDA_SUCCESS;
  const std::lock_guard guard(driver().mutex);
  const int place = advice == kUnsetPreferred ? kNowhere : names_host(location) ? kOnHost : location.id;
  each_granule(address, size, [&](Managed& block, std::uint64_t index) { block.preferred[index] = place; });
  return CUDA_SUCCESS;
}

/// A prefetch that its stream has not reached yet.
struct Prefetch {
  Moment begins;
  std::uint64_t address, size;
  int device;
};
auto& to_come = *new std::vector<Prefetch>;  // requires driver().mutex
std::atomic<std::size_t> to_come_count{0};

void move(const Prefetch& what) {
  const GranuleList granules = granules_in(what.address, what.size, is_any);
  if (what.device == kOnHost)
    move_to_host(granules);
  else
    move_to_device(what.device, granules);
}

void begin_prefetches() {
  std::erase_if(to_come, [](const Prefetch& one) {
    if (!has_passed(one.begins)) return false;
    move(one);
    return true;
  });
  to_come_count = to_come.size();
}

CUresult prefetch(CUdeviceptr address, std::size_t size, CUmemLocation location, CUstream stream,
                  const char* function = __builtin_FUNCTION()) {
  if (const CUresult result = check(address, size, function); result != CUDA_SUCCESS) return result;
  const bool to_host = names_host(location);
  const int device = to_host ? kOnHost : node_device(location.id);
  if (!to_host && device < 0) return CUDA_ERROR_INVALID_DEVICE;
  const Moment begins = end_of(stream);
  const std::lock_guard guard(driver().mutex);
  begin_prefetches();
  to_come.push_back({begins, address, size, device});
  begin_prefetches();
  return CUDA_SUCCESS;
}

}  // namespace

CUresult allocate_managed(CUdeviceptr* out, std::uint64_t size) {
  if (const CUresult state = ready(size, "cuMemAllocManaged"); state != CUDA_SUCCESS) return state;
  Context* context = current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(driver().mutex);
  if (!context->alive) return CUDA_ERROR_INVALID_CONTEXT;
  const Model& model = Node::get()->models()[static_cast<std::size_t>(context->device)];
  std::uint64_t taken = 0;
  for (const auto& [address, block] : all()) taken += block.size;
  if (const std::uint64_t most = kMaxOversubscription * model.total.count(); size > most - std::min(taken, most))
    return CUDA_ERROR_OUT_OF_MEMORY;
  Managed block{size, context, {}, {}};
  std::uint64_t start = 0;
  constexpr std::uint64_t kSmall = 512 << 10, kAlignment = 512;
  if (size <= kSmall) {
    Nursery& nursery = nurseries[context];
    if (nursery.granule == nullptr || nursery.used + size > kGranule.count()) {
      const auto made = map_granules(1);
      if (made.empty()) return CUDA_ERROR_OUT_OF_MEMORY;
      nursery = {made.front(), 0};
    }
    block.granules = {nursery.granule};
    start = nursery.granule->start + nursery.used;
    nursery.used += (size + kAlignment - 1) & ~(kAlignment - 1);
  } else {
    block.granules = map_granules(round_up(Bytes{size}, kGranule).count() >> 21);
    if (block.granules.empty()) return CUDA_ERROR_OUT_OF_MEMORY;
    start = block.granules.front()->start;
  }
  block.preferred.assign(block.granules.size(), kNowhere);
  all()[*out = start] = std::move(block);
  ++block_count;
  return CUDA_SUCCESS;
}

void arrive_managed() {
  if (to_come_count == 0) return;
  const std::lock_guard guard(driver().mutex);
  begin_prefetches();
}

bool free_managed(std::uint64_t address) {
  begin_prefetches();
  const auto found = all().find(address);
  if (found == all().end()) return false;
  const Managed block = std::move(found->second);
  all().erase(found);
  --block_count;
  // Small blocks share granules. A granule leaves the device if every block that remains in it prefers the host.
  GranuleList left;
  for (const auto& granule : block.granules) {
    const auto end = all().lower_bound(granule->start + kGranule.count());
    if (std::none_of(all().lower_bound(granule->start), end,
                     [](const auto& other) { return may_move(other.second, 0); }))
      left.push_back(granule.get());
  }
  move_to_host(left);
  return true;
}

void clear_managed(Context* context) {
  for (auto entry = all().begin(); entry != all().end();) {
    const auto here = entry++;
    if (here->second.context == context) (void)free_managed(here->first);
  }
  nurseries.erase(context);
}

bool find_managed(std::uint64_t address, Allocation& out) {
  const auto found = find(address);
  if (found == all().end()) return false;
  out = {found->first, found->second.size, found->second.context->device, found->second.context, true, true, nullptr};
  return true;
}

void touch_managed(std::uint64_t address, std::uint64_t size) {
  if (block_count == 0 || size == 0 || current() == nullptr) return;
  const std::lock_guard guard(driver().mutex);
  move_to_device(current()->device, granules_in(address, size, may_move));
}

void touch_all_managed(Context* context) {
  if (block_count == 0) return;
  const std::lock_guard guard(driver().mutex);
  for (const auto& [start, block] : all()) move_to_device(context->device, granules_in(start, block.size, may_move));
}

}  // namespace ration::sim

using namespace ration::sim;
using namespace ration::cuda;

RATION_ENTRY cuMemAdvise(CUdeviceptr address, std::size_t size, int advice, CUdevice device) {
  return advise(address, size, advice, location_of(device));
}
RATION_ENTRY cuMemAdvise_v2(CUdeviceptr address, std::size_t size, int advice, CUmemLocation location) {
  return advise(address, size, advice, location);
}
RATION_ENTRY cuMemPrefetchAsync(CUdeviceptr address, std::size_t size, CUdevice device, CUstream stream) {
  return prefetch(address, size, location_of(device), stream);
}
RATION_ENTRY cuMemPrefetchAsync_ptsz(CUdeviceptr address, std::size_t size, CUdevice device, CUstream stream) {
  return prefetch(address, size, location_of(device), per_thread(stream));
}
RATION_ENTRY cuMemPrefetchAsync_v2(CUdeviceptr address, std::size_t size, CUmemLocation location, unsigned int,
                                   CUstream stream) {
  return prefetch(address, size, location, stream);
}
RATION_ENTRY cuMemPrefetchAsync_v2_ptsz(CUdeviceptr address, std::size_t size, CUmemLocation location, unsigned int,
                                        CUstream stream) {
  return prefetch(address, size, location, per_thread(stream));
}

namespace {

/// Prefetches ranges. `first_of` gives for each location the index of its first range; the ranges up to the next
/// location's first range move to the same location.
CUresult prefetch_batch(const CUdeviceptr* addresses, const std::size_t* sizes, std::size_t count,
                        const CUmemLocation* locations, const std::size_t* first_of, std::size_t location_count,
                        unsigned long long flags, CUstream stream, const char* function = __builtin_FUNCTION()) {
  if (addresses == nullptr || sizes == nullptr || locations == nullptr || first_of == nullptr || flags != 0 ||
      count == 0 || location_count == 0 || first_of[0] != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::size_t location = 0;
  for (std::size_t i = 0; i < count; ++i) {
    while (location + 1 < location_count && first_of[location + 1] <= i) ++location;
    if (const CUresult result = prefetch(addresses[i], sizes[i], locations[location], stream, function);
        result != CUDA_SUCCESS)
      return result;
  }
  return CUDA_SUCCESS;
}

/// Writes an attribute of a range: the value that the whole range shares, or `kNowhere` if its parts differ.
CUresult attribute_of(void* out, std::size_t out_size, int attribute, CUdeviceptr address, std::size_t size,
                      const char* function = __builtin_FUNCTION()) {
  if (const CUresult result = check(address, size, function); result != CUDA_SUCCESS) return result;
  if (out == nullptr || out_size != sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
  if (attribute != kReadMostly && attribute != kPreferredLocation) return CUDA_ERROR_NOT_SUPPORTED;
  int value = 0;
  if (attribute == kPreferredLocation) {
    const std::lock_guard guard(driver().mutex);
    const Managed& first = find(address)->second;
    value = first.preferred[(address - first.granules.front()->start) >> 21];
    each_granule(address, size, [&](const Managed& block, std::uint64_t index) {
      if (block.preferred[index] != value) value = kNowhere;
    });
  }
  *static_cast<int*>(out) = value;
  return CUDA_SUCCESS;
}

/// Checks the ranges only. Real drivers drop the content; here, the location does not change either.
CUresult discard(const CUdeviceptr* addresses, const std::size_t* sizes, std::size_t count, unsigned long long flags,
                 const char* function = __builtin_FUNCTION()) {
  if (addresses == nullptr || sizes == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i)
    if (const CUresult result = check(addresses[i], sizes[i], function); result != CUDA_SUCCESS) return result;
  return CUDA_SUCCESS;
}

}  // namespace

RATION_ENTRY cuMemRangeGetAttribute(void* out, std::size_t out_size, int attribute, CUdeviceptr address,
                                    std::size_t size) {
  return attribute_of(out, out_size, attribute, address, size);
}
RATION_ENTRY cuMemRangeGetAttributes(void** out, std::size_t* out_sizes, int* attributes, std::size_t count,
                                     CUdeviceptr address, std::size_t size) {
  if (out == nullptr || out_sizes == nullptr || attributes == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i)
    if (const CUresult result = attribute_of(out[i], out_sizes[i], attributes[i], address, size);
        result != CUDA_SUCCESS)
      return result;
  return CUDA_SUCCESS;
}

#define BOTH(name, parameters, ...) \
  RATION_ENTRY name parameters __VA_ARGS__ RATION_ENTRY name##_ptsz parameters __VA_ARGS__
BOTH(cuMemPrefetchBatchAsync,
     (CUdeviceptr * addresses, std::size_t* sizes, std::size_t count, CUmemLocation* locations, std::size_t* first_of,
      std::size_t location_count, unsigned long long flags, CUstream stream),
     { return prefetch_batch(addresses, sizes, count, locations, first_of, location_count, flags, stream); })
BOTH(cuMemDiscardAndPrefetchBatchAsync,
     (CUdeviceptr * addresses, std::size_t* sizes, std::size_t count, CUmemLocation* locations, std::size_t* first_of,
      std::size_t location_count, unsigned long long flags, CUstream stream),
     { return prefetch_batch(addresses, sizes, count, locations, first_of, location_count, flags, stream); })
BOTH(cuMemDiscardBatchAsync,
     (CUdeviceptr * addresses, std::size_t* sizes, std::size_t count, unsigned long long flags, CUstream),
     { return discard(addresses, sizes, count, flags); })
#undef BOTH
