#include "shared_blocks.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "node_state.hpp"
#include "steps.hpp"

namespace ration::sim {

namespace {

constexpr std::uint64_t kMagic = 0x6b636f6c62657261;

// The number of low bits in a block's number that are the index of the block's record. The upper bits count the blocks
// that were ever published.
constexpr unsigned kIndexBits = 16;
static_assert(kMaxShared <= 1U << kIndexBits);

// The offset of the locks, above the ranges that other programs may lock in the same file.
constexpr std::uint64_t kLocks = std::uint64_t{1} << 62;

struct flock lock_of(short type, std::uint64_t id) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(kLocks + id);
  lock.l_len = 1;
  return lock;
}

struct FileHeader {
  std::uint64_t magic, id, size;
  std::uint32_t device, granule_count;
};

/// Returns the calling process as the records name it: its slot + 1, or 0 if it is not on the node.
std::uint16_t self() { return static_cast<std::uint16_t>(own_process->record.load(std::memory_order_relaxed)); }

std::uint16_t process_in(std::uint32_t importer) { return static_cast<std::uint16_t>(importer & 0xffff); }
constexpr std::uint32_t kOnce = 1U << 16;

/// Returns the entry of an importing process, or null if it has none. Returns an unused entry for process 0.
std::uint32_t* importer_in(SharedRecord& record, std::uint16_t process) {
  const auto found = std::find_if(std::begin(record.importers), std::end(record.importers),
                                  [&](std::uint32_t entry) { return process_in(entry) == process; });
  return found == std::end(record.importers) ? nullptr : found;
}

/// Returns the process that the block is charged to: its owner or, if there is none left, an importer. Returns 0 if
/// none of these is left.
std::uint16_t holder_of(const SharedRecord& record) {
  if (record.owner != 0) return record.owner;
  const auto found = std::find_if(std::begin(record.importers), std::end(record.importers),
                                  [](std::uint32_t entry) { return entry != 0; });
  return found == std::end(record.importers) ? std::uint16_t{0} : process_in(*found);
}

}  // namespace

SharedBlocks* SharedBlocks::get() {
  static SharedBlocks* blocks = [] {
    auto* made = new SharedBlocks;  // never destroyed, like the node
    return made->open() ? made : nullptr;
  }();
  return blocks;
}

bool SharedBlocks::open() {
  folder_ = node_.folder() + "/shared";
  if (::mkdir(folder_.c_str(), 0700) == 0) {
    const FileDescriptor made{::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    share_as(node_.folder(), made.get());
  }
  return static_cast<bool>(control());
}

FileDescriptor SharedBlocks::control() const { return FileDescriptor{open_node_file(folder_, "control")}; }

bool SharedBlocks::is_locked(std::uint64_t id) const {
  const FileDescriptor file = control();
  struct flock lock = lock_of(F_WRLCK, id);
  return file && ::fcntl(file.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

SharedRecord* SharedBlocks::find(std::uint64_t id) const {
  const std::uint64_t index = id & ((1U << kIndexBits) - 1);
  return id != 0 && index < kMaxShared && state_.shared[index].id == id ? &state_.shared[index] : nullptr;
}

std::string SharedBlocks::path_of(const SharedRecord& record) const {
  return folder_ + "/" + std::to_string(&record - state_.shared);
}

std::uint64_t SharedBlocks::publish(int device, const Granules& granules, std::uint64_t size) {
  node_.note(Unmovable::kShared);
  const std::lock_guard guard(node_);
  std::uint32_t index = 0;
  while (index < state_.shared_bound && state_.shared[index].id != 0) ++index;
  if (index == kMaxShared || self() == 0) return 0;
  SharedRecord& record = state_.shared[index];
  const std::uint64_t id = ++state_.last_shared << kIndexBits | index;
  const FileDescriptor file{open_node_file(folder_, std::to_string(index))};
  const FileHeader header{kMagic, id, size, static_cast<std::uint32_t>(device), granules.count};
  std::vector<std::uint32_t> list;
  for (std::uint32_t i = 0; i < granules.count; ++i) list.push_back(granules.at(i));
  const std::size_t bytes = list.size() * sizeof(std::uint32_t);
  if (!file || ::ftruncate(file.get(), 0) != 0 || ::write(file.get(), &header, sizeof header) != sizeof header ||
      ::write(file.get(), list.data(), bytes) != static_cast<ssize_t>(bytes))
    return 0;
  record = {};
  record.device = static_cast<std::uint32_t>(device);
  record.owner = record.charged = self();
  state_.shared_bound = std::max(state_.shared_bound, index + 1);
  step();
  record.id = id;
  step();
  for (const std::uint32_t granule : list) {
    state_.devices[device].owner[granule] = static_cast<std::uint16_t>(kShared + index);
    step();
  }
  return id;
}

bool SharedBlocks::read_block(const SharedRecord& record, SharedBlock& out) const {
  const FileDescriptor file{::open(path_of(record).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  FileHeader header{};
  if (!file || ::read(file.get(), &header, sizeof header) != sizeof header || header.magic != kMagic ||
      header.id != record.id)
    return false;
  std::vector<std::uint32_t> list(header.granule_count);
  const std::size_t bytes = list.size() * sizeof(std::uint32_t);
  const bool whole = ::read(file.get(), list.data(), bytes) == static_cast<ssize_t>(bytes);
  out = {header.id, static_cast<int>(header.device), header.size, {}};
  out.granules.count = static_cast<std::uint32_t>(list.size());
  out.granules.first = list.empty() ? 0 : list.front();
  bool run = true;
  for (std::size_t i = 1; i < list.size(); ++i) run = run && list[i] == list[i - 1] + 1;
  if (!run) out.granules.scattered = std::move(list);
  return whole;
}

int SharedBlocks::hold(std::uint64_t id, SharedBlock& out) {
  // The node's lock keeps the block from being freed before this descriptor has its lock.
  const std::lock_guard guard(node_);
  const SharedRecord* record = find(id);
  if (record == nullptr || !read_block(*record, out)) return -1;
  const int file = ::open((folder_ + "/control").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  struct flock lock = lock_of(F_RDLCK, id);
  if (file < 0 || ::fcntl(file, F_OFD_SETLK, &lock) != 0 || ::lseek(file, static_cast<off_t>(id), SEEK_SET) < 0) {
    if (file >= 0) ::close(file);
    return -1;
  }
  return file;
}

bool SharedBlocks::import(std::uint64_t id, SharedBlock& out) {
  node_.note(Unmovable::kShared);
  const std::lock_guard guard(node_);
  node_.reap();  // frees blocks whose owner is dead
  SharedRecord* record = find(id);
  if (record == nullptr || self() == 0 || !read_block(*record, out)) return false;
  std::uint32_t* entry = importer_in(*record, self());
  if (entry == nullptr) entry = importer_in(*record, 0);
  if (entry == nullptr || *entry >= std::uint32_t{0xffff} << 16) return false;
  *entry = (*entry | self()) + kOnce;
  step();
  reclaim();
  return true;
}

bool SharedBlocks::identify(int descriptor, std::uint64_t& id) const {
  struct stat control {
  }, given{};
  if (::stat((folder_ + "/control").c_str(), &control) != 0 || ::fstat(descriptor, &given) != 0) return false;
  if (control.st_dev != given.st_dev || control.st_ino != given.st_ino) return false;
  const off_t position = ::lseek(descriptor, 0, SEEK_CUR);
  id = static_cast<std::uint64_t>(position);
  return position > 0;
}

bool SharedBlocks::is_own(std::uint64_t id) {
  const std::lock_guard guard(node_);
  const SharedRecord* record = find(id);
  if (record == nullptr || record->owner == 0 || self() == 0) return false;
  // A process that has loaded the driver twice has two slots.
  return state_.processes[record->owner - 1].identity.same_as(state_.processes[self() - 1].identity);
}

void SharedBlocks::drop(std::uint64_t id) {
  const std::lock_guard guard(node_);
  if (SharedRecord* record = find(id); record != nullptr && record->owner == self()) record->owner = 0;
  step();
  reclaim();
}

void SharedBlocks::release(std::uint64_t id) {
  const std::lock_guard guard(node_);
  SharedRecord* record = find(id);
  if (std::uint32_t* entry = record != nullptr && self() != 0 ? importer_in(*record, self()) : nullptr)
    *entry = *entry < 2 * kOnce ? 0 : *entry - kOnce;
  step();
  reclaim();
}

void SharedBlocks::leave(int slot) {
  const auto process = static_cast<std::uint16_t>(slot + 1);
  for (std::uint32_t index = 0; index < state_.shared_bound; ++index) {
    SharedRecord& record = state_.shared[index];
    if (record.id == 0) continue;
    if (record.owner == process) record.owner = 0;
    step();
    if (std::uint32_t* entry = importer_in(record, process)) *entry = 0;
    step();
  }
}

void SharedBlocks::reclaim() {
  for (std::uint32_t index = 0; index < state_.shared_bound; ++index) {
    SharedRecord& record = state_.shared[index];
    if (record.id == 0 || (record.owner != 0 && record.owner == record.charged)) continue;
    const std::uint16_t holder = holder_of(record);
    if (holder == 0 && !is_locked(record.id)) {
      free(record);
    } else if (holder != record.charged) {
      const auto owner = static_cast<std::uint16_t>(kShared + index);
      const std::uint16_t* owners = state_.devices[record.device].owner;
      const auto count = std::count(owners, owners + node_.places(static_cast<int>(record.device)), owner);
      node_.charge(static_cast<int>(record.device), record.charged, -count);
      step();
      record.charged = holder;
      step();
      node_.charge(static_cast<int>(record.device), holder, count);
      step();
    }
  }
}

void SharedBlocks::free(SharedRecord& record) {
  const int device = static_cast<int>(record.device);
  const auto owner = static_cast<std::uint16_t>(kShared + (&record - state_.shared));
  const std::uint16_t* owners = state_.devices[device].owner;
  const auto count = std::count(owners, owners + node_.places(device), owner);
  node_.free_all_of(device, owner);
  node_.charge(device, record.charged, -count);
  step();
  ::unlink(path_of(record).c_str());
  record.id = 0;
  step();
}

}  // namespace ration::sim
