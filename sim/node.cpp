#include "node.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/byte_lock.hpp"
#include "base/own_folder.hpp"
#include "base/stable_hash.hpp"
#include "node_state.hpp"
#include "shared_blocks.hpp"
#include "steps.hpp"

namespace ration::sim {

int open_node_file(const std::string& folder, const std::string& name) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  const std::string path = folder + "/" + name;
  const int made = ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0600);
  if (made < 0) return errno == EEXIST ? ::open(path.c_str(), kFlags) : -1;
  share_as(folder, made);
  return made;
}

void share_as(const std::string& folder, int made) {
  struct stat outer {
  }, inner{};
  if (::stat(folder.c_str(), &outer) == 0 && ::fstat(made, &inner) == 0)
    ::fchmod(made, outer.st_mode & (S_ISDIR(inner.st_mode) ? 0777 : 0666));
}

namespace {

// Makes the state under another name, and links it into place when it is complete. So if the process that makes the
// state is stopped meanwhile, other processes need not wait for it.
bool make_state(const std::string& folder, const std::string& path) {
  std::string unfinished = path + ".XXXXXX";
  const FileDescriptor file{::mkostemp(unfinished.data(), O_CLOEXEC)};
  if (!file) return false;
  share_as(folder, file.get());
  bool good = ::ftruncate(file.get(), sizeof(NodeState)) == 0;
  void* address =
      good ? ::mmap(nullptr, sizeof(NodeState), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0) : MAP_FAILED;
  good = address != MAP_FAILED;
  if (good) {
    const Mapping mapping{address, sizeof(NodeState)};
    auto* state = static_cast<NodeState*>(address);
    state->lock.make();
    for (Turnstile& turnstile : state->turnstiles) make_turnstile(turnstile);
    good = ::link(unfinished.c_str(), path.c_str()) == 0 || errno == EEXIST;  // another process was faster
  }
  ::unlink(unfinished.c_str());
  return good;
}

// Maps the whole device at an address that is aligned to granules, like every granule on the device.
char* map_window(int file, std::uint64_t size) {
  const std::uint64_t step = kGranule.count();
  void* range = ::mmap(nullptr, size + step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  const std::uint64_t start = round_up(Bytes{reinterpret_cast<std::uint64_t>(range)}, kGranule).count();
  void* window = ::mmap(reinterpret_cast<void*>(start), size, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, 0);
  return window == MAP_FAILED ? nullptr : static_cast<char*>(window);
}

}  // namespace

namespace {

/// Returns the node's description: RATION_SIM, or node.toml in RATION_SIM_DIR, or one T4.
std::string description() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  if (std::string given = variable("RATION_SIM"); !given.empty()) return given;
  const std::string folder = variable("RATION_SIM_DIR");
  std::string file = folder + "/node.toml";
  return !folder.empty() && ::access(file.c_str(), F_OK) == 0 ? file : "T4";
}

std::string text_of(const unsigned char (&uuid)[16], const char* kind) {
  std::string text = kind;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", uuid[i]);
    text += pair;
  }
  return text;
}

/// Returns true for the first caller in this process. libcuda and libnvidia-ml have a node each, so the environment
/// remembers it.
bool tells_first() {
  constexpr const char* kTold = "_RATION_SIM_TOLD_BY";
  const std::string self = std::to_string(::getpid());
  const char* const teller = std::getenv(kTold);
  if (teller != nullptr && self == teller) return false;
  ::setenv(kTold, self.c_str(), 1);
  return true;
}

}  // namespace

Node* Node::get() {
  static Node* node = [] {
    auto* made = new Node;  // never destroyed: atexit handlers call the driver
    return made->open() ? made : nullptr;
  }();
  return node;
}

bool Node::finds(int device) const {
  const Model& model = models()[static_cast<std::size_t>(device)];
  if (std::find(cards_.begin(), cards_.end(), model.card) == cards_.end()) return false;
  if (spec_.device_nodes.empty() || model.profile.empty()) return true;
  // The numbers follow /proc/driver/nvidia-caps/mig-minors: each GPU has 15 GPU instances, and each of these has a
  // number of its own and eight for its compute instances.
  constexpr int kFirst = 3, kOfInstance = 9, kOfCard = 15 * kOfInstance;
  const int access = kFirst + kOfCard * model.card + kOfInstance * (model.instance + 1);
  const auto opens = [&](int minor) {
    const std::string capability = spec_.device_nodes + "/nvidia-caps/nvidia-cap" + std::to_string(minor);
    return ::access(capability.c_str(), R_OK) == 0;
  };
  return opens(access) && opens(access + 1);
}

bool Node::open() {
  const std::string spec = description();
  if (std::string problem; !read_node(spec, spec_, problem)) {
    if (tells_first()) std::fprintf(stderr, "ration-sim: RATION_SIM='%s': %s\n", spec.c_str(), problem.c_str());
    return false;
  }
  for (int card = 0; card <= models().back().card; ++card) {
    const std::string device_node = spec_.device_nodes + "/nvidia" + std::to_string(card);
    if (spec_.device_nodes.empty() || ::access(device_node.c_str(), R_OK | W_OK) == 0) cards_.push_back(card);
  }
  const auto folder = simulated_node_folder(spec);
  if (!folder.problem.empty()) return false;
  folder_ = folder.path;
  // The file's name tells its layout, so that no other version of the simulator uses it.
  state_path_ = folder_ + "/state" + std::to_string(sizeof(NodeState));
  FileDescriptor file = reopen();
  if (!file && make_state(folder_, state_path_)) file = reopen();
  void* address =
      file ? ::mmap(nullptr, sizeof(NodeState), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0) : MAP_FAILED;
  if (address == MAP_FAILED) return false;
  state_ = static_cast<NodeState*>(address);
  read_steps_to_live();
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // for NodeLock, if Yama lets only parents trace
  return true;
}

// Opens the state file again with an open file description of its own. Works even after the program has closed every
// descriptor.
FileDescriptor Node::reopen() const {
  return FileDescriptor{::open(state_path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
}

bool Node::open_memory() {
  std::call_once(memory_opened_, [this] {
    bool good = true;
    for (std::size_t device = 0; good && device < models().size(); ++device) {
      files_[device] = open_node_file(folder_, "memory" + std::to_string(device));
      const std::uint64_t size = std::uint64_t{places(static_cast<int>(device))} << 21;
      good = files_[device] >= 0 && ::ftruncate(files_[device], static_cast<off_t>(size)) == 0;
      windows_[device] = good ? map_window(files_[device], size) : nullptr;
      good = windows_[device] != nullptr;
    }
    memory_usable_ = good;
  });
  return memory_usable_;
}

void Node::card_uuid(int device, unsigned char (&out)[16]) const {
  const Model& model = models()[static_cast<std::size_t>(device)];
  if (!model.uuid.empty()) {
    std::string digits;
    for (const char letter : model.uuid.substr(4)) {
      if (letter != '-') digits += letter;
    }
    for (std::size_t i = 0; i < 16; ++i)
      out[i] = static_cast<unsigned char>(std::strtoul(digits.substr(2 * i, 2).c_str(), nullptr, 16));
    return;
  }
  const std::uint64_t high = stable_hash(folder_) * 0x9e3779b97f4a7c15U + static_cast<unsigned>(model.card);
  const std::uint64_t low = stable_hash(card_name(model)) ^ high << 7;
  std::memcpy(out, &high, 8);
  std::memcpy(out + 8, &low, 8);
}

void Node::uuid(int device, unsigned char (&out)[16]) const {
  card_uuid(device, out);
  const Model& model = models()[static_cast<std::size_t>(device)];
  if (model.profile.empty()) return;
  const std::uint64_t own = stable_hash(model.name + std::to_string(model.instance));
  for (std::size_t i = 0; i < 8; ++i) out[i] ^= static_cast<unsigned char>(own >> 8 * i);
}

std::string Node::uuid_text(int device) const {
  unsigned char bytes[16];
  uuid(device, bytes);
  return text_of(bytes, models()[static_cast<std::size_t>(device)].profile.empty() ? "GPU-" : "MIG-");
}

std::string Node::card_uuid_text(int device) const {
  unsigned char bytes[16];
  card_uuid(device, bytes);
  return text_of(bytes, "GPU-");
}

void Node::lock() {
  std::uint64_t pid_namespace = own_process->pid_namespace.load(std::memory_order_relaxed);
  if (pid_namespace == 0) own_process->pid_namespace = pid_namespace = own_pid_namespace();
  if (state_->lock.lock(pid_namespace)) return;
  recount();
  state_->lock.mark_consistent();
}

void Node::unlock() { state_->lock.unlock(); }

// Computes the sums again. Called after a process died while it held the lock: that process may have changed an owner
// but not yet the sum.
void Node::recount() {
  for (ProcessRecord& process : state_->processes) std::fill(process.granules, process.granules + kMaxDevices, 0);
  for (std::size_t device = 0; device < models().size(); ++device) {
    DeviceRecord& record = state_->devices[device];
    record.used_granules = 0;
    record.context_bytes = record.managed_bytes = 0;
    for (std::uint32_t granule = 0; granule < places(static_cast<int>(device)); ++granule) {
      const std::uint16_t owner = record.owner[granule];
      if (owner != 0)
        charge(static_cast<int>(device), owner < kShared ? owner : state_->shared[owner - kShared].charged, 1);
    }
    for (const ProcessRecord& process : state_->processes) {
      if (process.in_use == 0 || process.parked != 0) continue;
      record.context_bytes += process.contexts[device];
      record.managed_bytes += process.managed[device];
    }
  }
  recount_groups();
}

void Node::charge(int device, std::uint16_t process, std::int64_t granules) {
  const auto more = static_cast<std::uint64_t>(granules);  // modulo 2^64, as in all sums here
  if (process != 0) state_->processes[process - 1].granules[device] += more;
  if (process == 0 || state_->processes[process - 1].parked == 0)
    state_->devices[device].used_granules += static_cast<std::uint32_t>(more);
}

bool Node::lives(const FileDescriptor& state_file, int index) const {
  return !state_file || index + 1 == own_process->record ||
         byte_is_locked(state_file.get(), static_cast<std::uint32_t>(index));
}

void Node::reap() {
  std::vector<int> dead;
  {
    const FileDescriptor file = reopen();
    for (int index = 0; index < static_cast<int>(state_->process_bound); ++index) {
      if (state_->processes[index].in_use != 0 && !lives(file, index)) dead.push_back(index);
    }
  }
  SharedBlocks* shared = SharedBlocks::get();
  for (const int index : dead) {
    if (shared != nullptr) shared->leave(index);
  }
  if (shared != nullptr) shared->reclaim();
  for (const int index : dead) {
    for (std::size_t device = 0; device < models().size(); ++device)
      free_all_of(static_cast<int>(device), static_cast<std::uint16_t>(index + 1));
    state_->processes[index].in_use = 0;
    step();
  }
  if (!dead.empty()) recount();
}

void Node::free_all_of(int device, std::uint16_t owner) {
  const std::uint16_t* owners = state_->devices[device].owner;
  for (std::uint32_t granule = 0; granule < places(device); ++granule) {
    if (owners[granule] == owner) free_granule(device, granule);
  }
}

void Node::free_granule(int device, std::uint32_t granule) {
  DeviceRecord& record = state_->devices[device];
  if (record.touched[granule] != 0 && open_memory()) {
    ::fallocate(files_[device], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t{granule} << 21, 1 << 21);
    step();
    record.touched[granule] = 0;
    step();
  }
  record.owner[granule] = 0;
  step();
}

// Asks the system about the processes without the lock, so that many processes that start together do not queue for it.
void Node::reap_if_anybody_died() {
  std::vector<int> others;
  lock();
  for (int index = 0; index < static_cast<int>(state_->process_bound); ++index) {
    if (state_->processes[index].in_use != 0) others.push_back(index);
  }
  unlock();
  if (others.empty()) return;
  const FileDescriptor file = reopen();
  if (std::all_of(others.begin(), others.end(), [&](int index) { return lives(file, index); })) return;
  lock();
  reap();
  unlock();
}

// Returns this process's slot. Makes the process's record if it has none yet; a child needs one of its own. Requires
// the lock.
int Node::slot() {
  if (const int own = own_process->record.load(std::memory_order_relaxed); own > 0) return own - 1;
  const ProcessIdentity self = current_process();
  const std::string group = own_group();
  // What this process held before it executed this program must not count for it now.
  if (std::any_of(std::begin(state_->processes), std::end(state_->processes),
                  [&](const ProcessRecord& process) { return process.in_use != 0 && process.identity.same_as(self); }))
    reap();
  for (int attempt = 0; attempt < 2; ++attempt) {
    FileDescriptor file = reopen();
    for (int index = 0; file && index < kMaxProcesses; ++index) {
      ProcessRecord& process = state_->processes[index];
      if (process.in_use != 0 || !lock_byte(file.get(), static_cast<std::uint32_t>(index))) continue;
      own_process->presence = keep_locked(std::move(file), static_cast<std::uint32_t>(index), reopen());
      if (!own_process->presence) return -1;
      state_->process_bound = std::max(state_->process_bound, static_cast<std::uint32_t>(index) + 1);
      Turnstile& turnstile = state_->turnstiles[index];
      turnstile.state = turnstile.moving = kRunning;
      turnstile.locker = 0;
      process = {};
      process.identity = self;
      std::memcpy(process.group, group.c_str(), group.size() + 1);
      step();
      process.in_use = 1;
      step();
      own_process->record = index + 1;
      own_process->turnstile = &turnstile;
      return index;
    }
    reap();
  }
  return -1;
}

Bytes Node::used_locked(int device) const {
  const DeviceRecord& record = state_->devices[device];
  const Model& model = models()[static_cast<std::size_t>(device)];
  return kGranule * record.used_granules + Bytes{record.context_bytes + record.managed_bytes} + model.reserved +
         model.orphaned;
}

// Raises the peak. Memory of dead processes must not count for a peak. So if the use exceeds the peak and other
// processes hold a part of the use, reaps dead processes first.
void Node::note_peak(int device) {
  DeviceRecord& record = state_->devices[device];
  std::uint64_t& peak = record.peak_bytes;
  if (used_locked(device).count() <= peak) return;
  const int own = own_process->record;
  if (own == 0 || record.used_granules != state_->processes[own - 1].granules[device] ||
      record.context_bytes != state_->processes[own - 1].contexts[device] ||
      record.managed_bytes != state_->processes[own - 1].managed[device])
    reap();
  peak = std::max(peak, used_locked(device).count());
}

Bytes Node::free_locked(int device) const {
  const Bytes used = used_locked(device);
  const Bytes total = models()[static_cast<std::size_t>(device)].total;
  return used < total ? total - used : Bytes{0};
}

bool Node::attach() {
  lock();
  const bool on_node = slot() >= 0;
  unlock();
  return on_node;
}

bool Node::fits_locked(int slot, int device, Bytes needed) const {
  return free_locked(device) >= needed && headroom_locked(slot, device) >= needed;
}

// Makes room for a request: reclaims what dead processes hold and the limits of removed groups, and evicts managed
// memory.
void Node::make_room(int slot, int device, Bytes needed) {
  if (slot < 0 || fits_locked(slot, device, needed)) return;
  reap();
  forget_removed_groups();
  evict_managed(device, needed);
}

bool Node::take(int device, std::uint64_t count, Granules& out) {
  const std::uint32_t total = places(device);
  if (count == 0 || count > total) return false;
  const auto wanted = static_cast<std::uint32_t>(count);
  lock();
  const int own = slot();
  make_room(own, device, kGranule * count);
  const bool fits = own >= 0 && fits_locked(own, device, kGranule * count);
  if (fits) {
    DeviceRecord& record = state_->devices[device];
    std::uint32_t run = 0, at = record.hint < total ? record.hint : 0;
    for (std::uint32_t seen = 0; seen < 2 * total && run < wanted; ++seen, ++at) {
      if (at >= total) at = 0, run = 0;
      run = record.owner[at] == 0 ? run + 1 : 0;
    }
    out.count = wanted;
    out.scattered.clear();
    if (run >= wanted) {
      out.first = record.hint = at - wanted;
    } else {  // enough granules, but not side by side: the caller maps them one by one
      for (std::uint32_t i = 0; i < total && out.scattered.size() < wanted; ++i) {
        if (record.owner[i] == 0) out.scattered.push_back(i);
      }
    }
    for (std::uint32_t i = 0; i < wanted; ++i) {
      record.owner[out.at(i)] = static_cast<std::uint16_t>(own + 1);
      step();
    }
    charge(device, static_cast<std::uint16_t>(own + 1), wanted);
    step();
    note_peak(device);
  }
  unlock();
  return fits;
}

void Node::give(int device, const Granules& granules) {
  lock();
  const auto own = static_cast<std::uint16_t>(own_process->record.load(std::memory_order_relaxed));
  std::int64_t given = 0;
  for (std::uint32_t i = 0; i < granules.count; ++i) {
    if (own == 0 || state_->devices[device].owner[granules.at(i)] != own) continue;
    free_granule(device, granules.at(i));
    ++given;
  }
  if (given > 0) charge(device, own, -given);
  step();
  unlock();
}

std::uint32_t Node::places(int device) const {
  const std::uint64_t granules = models()[static_cast<std::size_t>(device)].total.count() >> 21;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(4 * granules, kMaxPlaces));
}

bool Node::take_context(int device) {
  const Bytes cost = models()[static_cast<std::size_t>(device)].context;
  lock();
  const int own = slot();
  make_room(own, device, cost);
  const bool fits = own >= 0 && fits_locked(own, device, cost);
  if (fits) {
    state_->processes[own].contexts[device] += cost.count();
    step();
    state_->devices[device].context_bytes += cost.count();
    step();
    note_peak(device);
  }
  unlock();
  return fits;
}

void Node::give_context(int device) {
  const std::uint64_t cost = models()[static_cast<std::size_t>(device)].context.count();
  lock();
  if (const int own = slot(); own >= 0 && state_->processes[own].contexts[device] >= cost) {
    state_->processes[own].contexts[device] -= cost;
    step();
    state_->devices[device].context_bytes -= cost;
    step();
  }
  unlock();
}

namespace {

std::uint64_t pinned_in(const NodeState& state) {
  return std::accumulate(
      state.processes, state.processes + state.process_bound, std::uint64_t{0},
      [](std::uint64_t sum, const ProcessRecord& process) { return sum + (process.in_use != 0 ? process.pinned : 0); });
}

}  // namespace

bool Node::pin(Bytes bytes) {
  lock();
  const int own = slot();
  if (own >= 0) {
    state_->processes[own].pinned += bytes.count();
    step();
    if (pinned_in(*state_) > state_->pinned_peak) reap();
    state_->pinned_peak = std::max(state_->pinned_peak, pinned_in(*state_));
  }
  unlock();
  return own >= 0;
}

void Node::unpin(Bytes bytes) {
  lock();
  if (const int own = slot(); own >= 0)
    state_->processes[own].pinned -= std::min(state_->processes[own].pinned, bytes.count());
  step();
  unlock();
}

PinnedUse Node::pinned() {
  PinnedUse result;
  reap_if_anybody_died();
  lock();
  for (const ProcessRecord& process : state_->processes)
    if (process.in_use != 0 && process.pinned != 0)
      result.processes.emplace_back(process.identity.pid, Bytes{process.pinned});
  result.all = Bytes{pinned_in(*state_)};
  result.peak = Bytes{state_->pinned_peak};
  unlock();
  return result;
}

Bytes Node::free(int device) {
  lock();
  if (SharedBlocks* shared = SharedBlocks::get(); shared != nullptr) shared->reclaim();
  const Bytes result = free_locked(device);
  unlock();
  return result;
}

std::vector<ProcessUse> Node::uses(int device) {
  auto processes = survey(device).processes;
  std::erase_if(processes, [](const ProcessUse& use) { return use.held == Bytes{0}; });
  return processes;
}

DeviceUse Node::survey(int device) {
  DeviceUse result;
  reap_if_anybody_died();
  lock();
  if (SharedBlocks* shared = SharedBlocks::get(); shared != nullptr) shared->reclaim();
  for (int index = 0; index < kMaxProcesses; ++index) {
    const ProcessRecord& process = state_->processes[index];
    const std::uint64_t all =
        process.granules[device] * kGranule.count() + process.contexts[device] + process.managed[device];
    if (process.in_use == 0 || all == 0) continue;
    // A process that has loaded the driver twice has two slots; its figures are added up.
    const auto same = std::find_if(result.processes.begin(), result.processes.end(), [&](const ProcessUse& use) {
      return use.pid == process.identity.pid && use.pid_namespace == process.identity.pid_namespace;
    });
    ProcessUse& use = same != result.processes.end() ? *same : result.processes.emplace_back();
    use.pid = process.identity.pid;
    use.pid_namespace = process.identity.pid_namespace;
    if (process.parked != 0) {
      use.on_host += Bytes{all};
      continue;
    }
    use.held += Bytes{all};
    use.contexts += Bytes{process.contexts[device]};
    use.managed += Bytes{process.managed[device]};
  }
  result.free = free_locked(device);
  result.peak = Bytes{state_->devices[device].peak_bytes};
  unlock();
  return result;
}

bool Node::is_touched(int device, std::uint32_t granule) const {
  return __atomic_load_n(&state_->devices[device].touched[granule], __ATOMIC_RELAXED) != 0;
}

bool Node::touch(int device, std::uint32_t granule) {
  std::uint8_t& touched = state_->devices[device].touched[granule];
  if (is_touched(device, granule)) return true;
  if (::posix_fallocate(files_[device], off_t{granule} << 21, 1 << 21) != 0) return false;
  step();
  __atomic_store_n(&touched, std::uint8_t{1}, __ATOMIC_RELAXED);
  return true;
}

}  // namespace ration::sim
