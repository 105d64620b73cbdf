// The figures, limits and memory of a runtime's devices.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <regex>

#include "base/command.hpp"
#include "base/units.hpp"
#include "runtime/memory_map.hpp"
#include "runtime/shares.hpp"
#include "runtime/state.hpp"

namespace ration {

using namespace runtime;

// ------------------------------------------------------------------------------------------------------- statistics

LogicalGpu& Runtime::State::gpu_at(int index) {
  if (index < 0 || static_cast<std::size_t>(index) >= logical_gpus.size())
    throw ValueError(fmt::format("No matching devices found for '{}'", fmt::format("GPU:{}", index)));
  return logical_gpus[static_cast<std::size_t>(index)];
}

LogicalGpu& Runtime::State::gpu_named(const std::string& device, const char* for_cpu) {
  static const std::regex form(
      R"((?:/job:[A-Za-z][A-Za-z0-9_]*)?(?:/replica:\d+)?(?:/task:\d+)?(?:/device:|/)?([A-Za-z][A-Za-z0-9_]*):(\d+))");
  std::smatch parts;
  if (!std::regex_match(device, parts, form)) {
    throw ValueError(fmt::format(
        "Failed parsing device name: '{}'. Note a valid device string should at least contain a device type and a "
        "device index, like \"GPU:0\".",
        device));
  }
  std::string type = parts[1];
  std::transform(type.begin(), type.end(), type.begin(), [](unsigned char letter) { return std::toupper(letter); });
  const std::string name = fmt::format("/device:{}:{}", type, parts[2].str());
  const auto found = std::find_if(logical_devices.begin(), logical_devices.end(),
                                  [&](const LogicalDevice& each) { return each.name == name; });
  if (found == logical_devices.end()) throw ValueError(fmt::format("No matching devices found for '{}'", device));
  if (found->device_type != "GPU") throw ValueError(fmt::format("{} '{}'", for_cpu, device));
  return gpu_at(std::stoi(parts[2].str()));
}

MemoryInfo Runtime::get_memory_info(const std::string& device) {
  const auto guard = state_->enter();
  initialize();
  const pool::Statistics statistics =
      state_->gpu_named(device, "Allocator stats not available for device").memory->statistics();
  MemoryInfo info;
  info.current = statistics.bytes_in_use;
  info.peak = statistics.peak_bytes_in_use;
  info.held = statistics.bytes_reserved;
  info.peak_held = statistics.peak_bytes_reserved;
  info.limit = statistics.bytes_limit;
  info.num_allocs = statistics.num_allocs;
  info.largest_alloc_size = statistics.largest_alloc_size;
  info.largest_free_block = statistics.largest_free_block_bytes;
  info.fragmentation = statistics.fragmentation();
  return info;
}

void Runtime::reset_memory_stats(const std::string& device) {
  const auto guard = state_->enter();
  initialize();
  state_->gpu_named(device, "Cannot reset memory stats for device").memory->reset_peaks();
}

// --------------------------------------------------------------------------------------------------- changing limits

void Runtime::State::apply_limit(std::size_t gpu) {
  const auto limit = configuration.limits.find(physical[gpu + 1].name);
  if (limit == configuration.limits.end()) return;
  const Bytes most = std::min(limit->second, device_limit.value_or(limit->second));
  double configured = 0;
  for (const LogicalGpu& each : logical_gpus)
    configured += each.gpu == gpu ? static_cast<double>(each.configured.count()) : 0;
  for (LogicalGpu& each : logical_gpus) {
    if (each.gpu != gpu) continue;
    const double share = configured > 0 ? static_cast<double>(each.configured.count()) / configured : 1;
    const Bytes part{static_cast<std::uint64_t>(share * static_cast<double>(most.count()))};
    each.memory->set_limit(each.is_capped ? std::min(part, each.configured) : part);
  }
}

void Runtime::activate() { runtime::activate(); }
void Runtime::prepare_restart() { runtime::prepare_restart(); }

void Runtime::set_memory_limit(const PhysicalDevice& device, std::uint64_t bytes) {
  auto guard = state_->enter();
  state_->require_known(device);
  if (device.device_type != "GPU") throw ValueError("A memory limit can be set on GPUs only, not on " + device.repr());
  if (bytes == 0)
    throw ValueError("A memory limit of 0 leaves nothing; to hide a device: set_visible_devices([], 'GPU')");
  const std::size_t place = state_->place_of(device);
  if (const auto own = state_->own_account(place)) {
    runtime::set_own_limit(*own->book, own->account, Bytes{bytes});
  } else if (Bytes{bytes} > state_->gpus[place].total) {
    throw ValueError(fmt::format("A limit of {} is more than GPU {} has ({}).", format_size(Bytes{bytes}), place,
                                 format_size(state_->gpus[place].total)));
  }
  state_->configuration.limits[device.name] = Bytes{bytes};
  state_->apply_limit(place);
  const auto& gpus = state_->logical_gpus;
  const bool is_over = std::any_of(gpus.begin(), gpus.end(), [&](const LogicalGpu& each) {
    const pool::Statistics now = each.memory->statistics();
    return each.gpu == place && now.bytes_reserved > now.bytes_limit;
  });
  guard.unlock();  // callbacks may wait for other threads; memory over the limit is trimmed as it is freed
  if (is_over) (void)state_->pressure.tell(0);
}

/// Returns what the program can have of a GPU now. For another device, returns 0, a value that set_memory_limit()
/// rejects.
Bytes Runtime::State::total_of(const PhysicalDevice& device) {
  const auto guard = enter();
  require_known(device);
  return device.device_type == "GPU" ? whole(place_of(device)) : Bytes{0};
}

// Does not hold the lock during the call of set_memory_limit(), which calls callbacks.
void Runtime::set_memory_limit_fraction(const PhysicalDevice& device, double share) {
  const Bytes total = state_->total_of(device);
  if (!(share > 0 && share <= 1))
    throw ValueError(fmt::format("A share of a device is above 0 and at most 1, not {}", share));
  set_memory_limit(device, static_cast<std::uint64_t>(share * static_cast<double>(total.count())));
}

void Runtime::set_memory_limit(const PhysicalDevice& device, const std::string& size) {
  const Bytes total = state_->total_of(device);
  if (device.device_type != "GPU") return set_memory_limit(device, 0);
  const auto bytes = parse_size(size, total, total);
  if (!bytes) throw ValueError(bytes.error().what + " " + bytes.error().fix);
  set_memory_limit(device, bytes->count());
}

void Runtime::clear_memory_limit(const PhysicalDevice& device) {
  const auto guard = state_->enter();
  state_->require_known(device);
  if (device.device_type != "GPU") return;
  const std::size_t place = state_->place_of(device);
  if (const auto own = state_->own_account(place)) own->book->account(own->account).set_own_limit(kUnlimited);
  if (state_->configuration.limits.erase(device.name) == 0) return;
  for (LogicalGpu& each : state_->logical_gpus) {
    if (each.gpu == place) each.memory->set_limit(each.configured);
  }
}

std::uint64_t Runtime::get_memory_limit(const PhysicalDevice& device) {
  const auto guard = state_->enter();
  state_->require_known(device);
  if (device.device_type != "GPU") return 0;
  if (const auto own = state_->own_account(state_->place_of(device))) {
    const Bytes limit = own->book->account(own->account).limits().own;
    return limit == kUnlimited ? 0 : limit.count();
  }
  const auto known = state_->configuration.limits.find(device.name);
  return known == state_->configuration.limits.end() ? 0 : known->second.count();
}

namespace {

/// Returns the GPU with that number in the driver's order; without a number, the visible GPUs.
std::vector<PhysicalDevice> physical_gpus(Runtime& runtime, std::optional<int> gpu) {
  const auto gpus = gpu ? runtime.list_physical_devices("GPU") : runtime.get_visible_devices("GPU");
  if (!gpu) return gpus;
  if (*gpu < 0 || static_cast<std::size_t>(*gpu) >= gpus.size())
    throw ValueError(fmt::format("there is no GPU {}; this machine has {}", *gpu, gpus.size()));
  return {gpus[static_cast<std::size_t>(*gpu)]};
}

}  // namespace

std::optional<runtime::OwnAccount> Runtime::State::own_account(std::size_t gpu) const {
  book::Book* book = own_book();
  if (book == nullptr) return std::nullopt;
  const std::uint32_t account = book->find_account(gpus[gpu].uuid);
  return account < book->account_count() ? std::optional(OwnAccount{book, account}) : std::nullopt;
}

namespace {

/// Returns the accounts of one or all GPUs, as this process counts them.
std::vector<std::uint32_t> accounts_of(const book::Book& book, std::optional<int> gpu) {
  std::vector<std::uint32_t> accounts;
  for (std::size_t number = 0; number < book.account_count(); ++number) {
    const auto account = account_of_gpu(book, number);
    if (account && (!gpu || number == static_cast<std::size_t>(*gpu))) accounts.push_back(*account);
  }
  if (accounts.empty()) throw ValueError(gpu ? fmt::format("there is no GPU {}", *gpu) : "there is no GPU");
  return accounts;
}

}  // namespace

void Runtime::limit(const std::string& size, std::optional<int> gpu) {
  book::Book* book = own_book();
  if (book != nullptr && !state_->has_looked()) {
    for (const std::uint32_t account : accounts_of(*book, gpu)) {
      const Bytes whole = whole_of(*book, account);
      const auto bytes = parse_size(size, whole, whole);
      if (!bytes) throw ValueError(bytes.error().what + " " + bytes.error().fix);
      runtime::set_own_limit(*book, account, *bytes);
    }
    return;
  }
  for (const PhysicalDevice& device : physical_gpus(*this, gpu)) {
    if (size == "max")
      clear_memory_limit(device);
    else
      set_memory_limit(device, size);
  }
}

std::uint64_t Runtime::limit_of(int gpu) {
  book::Book* book = own_book();
  if (book == nullptr || state_->has_looked()) return get_memory_limit(physical_gpus(*this, gpu).front());
  const Bytes limit = book->account(accounts_of(*book, gpu).front()).limits().own;
  return limit == kUnlimited ? 0 : limit.count();
}

WorkloadInfo Runtime::workload_info(int gpu) {
  const book::Book* book = own_book();
  if (book == nullptr) throw ValueError("this process is under no limit of ration's");
  const std::uint32_t account = accounts_of(*book, gpu).front();
  const Bytes whole = whole_of(*book, account);
  const book::Account own = book->account(account);
  return {own.used().count(), own.peak().count(), own.visible_size(whole).count(), whole.count()};
}

namespace {

/// Returns the workload's account of pinned host memory.
book::Account host_account() {
  const book::Book* book = own_book();
  if (book == nullptr) throw ValueError("this process is under no limit of ration's");
  if (!book->counts_host())
    throw ValueError("an older ration started this workload, and counts no pinned memory of it");
  return book->account(book::kHostAccount);
}

/// Returns the highest limit of pinned memory that the workload may set itself.
Bytes host_whole(const book::Account& host) {
  return std::min(host.granted(),
                  Bytes{static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE))});
}

}  // namespace

void Runtime::limit_host(const std::string& size) {
  const book::Account host = host_account();
  const Bytes whole = host_whole(host);
  const auto bytes = parse_size(size, whole, whole, "machine");
  if (!bytes) throw ValueError(bytes.error().what + " " + bytes.error().fix);
  if (*bytes == Bytes{0}) throw ValueError("A host limit of 0 leaves nothing to pin.");
  if (*bytes > whole && *bytes < kUnlimited)
    throw ValueError(fmt::format("A host limit of {} is more than this workload may have ({}).", format_size(*bytes),
                                 format_size(whole)));
  host.set_own_limit(*bytes);
}

std::uint64_t Runtime::host_limit() {
  const Bytes limit = host_account().limits().own;
  return limit == kUnlimited ? 0 : limit.count();
}

WorkloadInfo Runtime::host_info() {
  const book::Account host = host_account();
  const Bytes whole = host_whole(host);
  return {host.used().count(), host.peak().count(), std::min(host.limits().binding(), whole).count(), whole.count()};
}

void Runtime::limit_share(const std::string& share, const std::string& size, std::optional<int> gpu) {
  const std::uint32_t number = share_named(share);
  const book::Book* book = own_book();
  if (book == nullptr) throw ValueError("this process is under no limit of ration's");
  for (const std::uint32_t account : accounts_of(*book, gpu)) {
    const Bytes whole = book->account(account).visible_size(whole_of(*book, account));
    const auto bytes = parse_size(size, whole, whole);
    if (!bytes) throw ValueError(bytes.error().what + " " + bytes.error().fix);
    runtime::limit_share(number, account, *bytes);
  }
}

WorkloadInfo Runtime::share_info(const std::string& share, int gpu) {
  const std::uint32_t number = share_named(share);
  const WorkloadInfo whole = workload_info(gpu);
  const ShareAmounts amounts = amounts_of_share(number, accounts_of(*own_book(), gpu).front());
  return {amounts.used.count(), amounts.peak.count(), std::min(amounts.limit.count(), whole.limit), whole.limit};
}

ShareScope::ShareScope(const std::string& share) {
  const FormerShare former = enter_share(share_named(share));
  own_ = former.own;
  common_ = former.common;
}
ShareScope::~ShareScope() { leave_share({own_, common_}); }

// ---------------------------------------------------------------------------------------------------------- memory

namespace {

pool::Stream number_of(void* stream) { return reinterpret_cast<pool::Stream>(stream); }

/// Returns true if the program's limit in the book does not admit the request. That limit also counts memory outside
/// this pool.
bool is_beyond_own_limit(const std::optional<runtime::OwnAccount>& own, std::size_t bytes) {
  return own && own->book->account(own->account).headroom() < Bytes{bytes};
}

[[noreturn]] void deny(int gpu, std::size_t bytes, LogicalGpu& device, pool::Failure failure,
                       const std::optional<runtime::OwnAccount>& own) {
  pool::Allocator& memory = *device.memory;
  if (failure == pool::Failure::kBadSize || failure == pool::Failure::kBadAlignment)
    throw ValueError(fmt::format("{} bytes on GPU:{}: {}.", bytes, gpu, pool::describe(failure)));
  if (failure == pool::Failure::kForked || failure == pool::Failure::kClosed)
    throw RuntimeError(fmt::format("GPU:{}: {}.", gpu, pool::describe(failure)));
  const pool::Statistics statistics = memory.statistics();
  const bool beyond_own_limit = failure == pool::Failure::kDeviceFull && is_beyond_own_limit(own, bytes);
  const std::string reason =
      beyond_own_limit
          ? fmt::format(
                "of the {} that this program may take on the GPU, {} are taken, with its CUDA context and what "
                "other libraries took",
                format_size(own->book->account(own->account).limits().binding()),
                format_size(own->book->account(own->account).used()))
          : pool::describe(failure);
  std::string text = fmt::format(
      "{} denied on GPU:{}: {}. In use {}, taken {}, limit {}, largest free block {}.", format_size(Bytes{bytes}), gpu,
      reason, format_size(Bytes{statistics.bytes_in_use}), format_size(Bytes{statistics.bytes_reserved}),
      format_size(Bytes{statistics.bytes_limit}), format_size(Bytes{statistics.largest_free_block_bytes}));
  if (failure == pool::Failure::kDriver || failure == pool::Failure::kDeviceLost)
    text += fmt::format(" The driver's error is {}.", memory.last_driver_error());
  if (failure == pool::Failure::kOverLimit || beyond_own_limit) text += " Raise the limit: ration.limit('8GiB').";
  for (const TagUsage& each : device.tags->usage())
    text += fmt::format(" '{}' holds {} in {} blocks.", each.tag, format_size(Bytes{each.bytes}), each.blocks);
  if (failure == pool::Failure::kDeviceFull && !beyond_own_limit)
    text += " Who holds the rest: ration ps, or nvidia-smi.";
  if (const std::string line = map_as_line(memory.pieces()); !line.empty()) text += "\n" + line;
  throw MemoryLimitExceeded(text, bytes, statistics.bytes_limit, statistics.bytes_reserved);
}

}  // namespace

ShareBlock Runtime::State::enter_block(const LogicalGpu& device, std::size_t bytes) const {
  const std::uint32_t share = current_share();
  if (share == 0) return {};
  const auto own = own_account(device.gpu);
  if (!own) return {};
  if (charge_share(share, own->account, Bytes{bytes})) return {share, own->account};
  const ShareAmounts now = amounts_of_share(share, own->account);
  throw MemoryLimitExceeded(
      fmt::format("{} denied: this part of the program holds {} of its share {}. Raise it: ration.share(NAME, '{}').",
                  format_size(Bytes{bytes}), format_size(now.used), format_size(now.limit),
                  exact_size(now.used + Bytes{bytes})),
      bytes, now.limit.count(), now.used.count());
}

void* Runtime::allocate(int gpu, std::size_t bytes, void* stream, std::size_t alignment) {
  if (!state_->is_initialized()) initialize();
  LogicalGpu& device = state_->gpu_at(gpu);
  const ShareBlock block = state_->enter_block(device, bytes);
  const OutsideShares outside(block.share != 0);
  std::uint64_t address = 0;
  pool::Failure failure = device.memory->allocate(number_of(stream), Bytes{bytes}, alignment, address);
  if ((failure == pool::Failure::kOverLimit || failure == pool::Failure::kDeviceFull) && state_->pressure.tell(bytes))
    failure = device.memory->allocate(number_of(stream), Bytes{bytes}, alignment, address);
  if (failure != pool::Failure::kNone) {
    refund_share(block.share, block.account, Bytes{bytes});
    deny(gpu, bytes, device, failure, state_->own_account(device.gpu));
  }
  device.tags->took(address, bytes, block);
  return reinterpret_cast<void*>(address);
}

void Runtime::deallocate(int gpu, void* address, void* stream) {
  if (!state_->is_initialized())
    throw ValueError(fmt::format("{} on GPU:{}: nothing was handed out yet.", address, gpu));
  LogicalGpu& device = state_->gpu_at(gpu);
  device.tags->gives(reinterpret_cast<std::uint64_t>(address));
  for (void* other : state_->recorded_streams.take(address)) {
    if (other != stream)
      state_->context_of(device.gpu).order(static_cast<cuda::CUstream>(other), static_cast<cuda::CUstream>(stream));
  }
  const pool::Failure failure = device.memory->deallocate(number_of(stream), reinterpret_cast<std::uint64_t>(address));
  if (failure == pool::Failure::kForeignPointer || failure == pool::Failure::kFreedPointer)
    throw ValueError(fmt::format("{} on GPU:{}: {}.", address, gpu, pool::describe(failure)));
  if (failure != pool::Failure::kNone) throw RuntimeError(fmt::format("GPU:{}: {}.", gpu, pool::describe(failure)));
}

void Runtime::record_stream(void* address, void* stream) { state_->recorded_streams.add(address, stream); }

std::uint64_t Runtime::trim(int gpu) {
  const auto guard = state_->enter();
  initialize();
  return state_->gpu_at(gpu).memory->trim().count();
}

std::uint64_t Runtime::on_pressure(std::function<void(std::uint64_t wanted)> callback) {
  if (!callback) throw ValueError("on_pressure() needs something to call.");
  return state_->pressure.add(std::move(callback));
}

void Runtime::remove_pressure_callback(std::uint64_t number) { state_->pressure.remove(number); }

std::vector<TagUsage> Runtime::tag_usage(int gpu) {
  if (!state_->is_initialized()) initialize();
  return state_->gpu_at(gpu).tags->usage();
}

TagScope::TagScope(const std::string& tag) {
  if (!is_tag(tag)) throw ValueError("A tag is UTF-8 of at most 256 bytes.");
  former_ = exchange_tag(tag);
}
TagScope::~TagScope() { (void)exchange_tag(former_); }

std::string Runtime::memory_map_json(int gpu) {
  const auto guard = state_->enter();
  initialize();
  pool::Allocator& memory = *state_->gpu_at(gpu).memory;
  return map_as_json(memory.statistics(), memory.pieces(), tag_usage(gpu));
}

std::string Runtime::memory_map_svg(int gpu) {
  const auto guard = state_->enter();
  initialize();
  pool::Allocator& memory = *state_->gpu_at(gpu).memory;
  return map_as_svg(memory.statistics(), memory.pieces());
}

}  // namespace ration
