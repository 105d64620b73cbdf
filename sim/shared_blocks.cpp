#include "shared_blocks.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/process.hpp"

namespace ration::sim {

inline constexpr std::uint32_t kMaxShared = 4096;
inline constexpr int kMaxImporters = 32;

struct SharedRecord {
  std::uint64_t id;  // 0 = unused
  std::uint32_t device;
  std::uint32_t dropped;
  ProcessIdentity owner;
  std::uint32_t handed_on;  // its granules are `heir`'s, or nobody's where that has no pid
  ProcessIdentity heir;
  ProcessIdentity importers[kMaxImporters];  // pid 0 = unused; one entry for each time it was imported
};

/// A file of zeros is an empty table. Changed under the node's lock.
struct SharedTable {
  std::uint64_t last_id;
  std::uint64_t in_use;
  SharedRecord records[kMaxShared];
  std::uint16_t record_of[kMaxDevices][kMaxPlaces];  // index + 1; 0 = not published
};

namespace {

constexpr std::uint64_t kMagic = 0x6b636f6c62657261;

// Where the locks lie: above what other programs may lock in the same file.
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

struct NodeGuard {
  explicit NodeGuard(Node& locked) : node(locked) { node.lock(); }
  ~NodeGuard() { node.unlock(); }
  Node& node;
};

}  // namespace

SharedBlocks* SharedBlocks::get() {
  static SharedBlocks* blocks = [] {
    auto* made = new SharedBlocks;  // leaked, as the node is
    return made->open() ? made : nullptr;
  }();
  return blocks;
}

bool SharedBlocks::open() {
  folder_ = Node::get()->folder() + "/shared";
  ::mkdir(folder_.c_str(), 0700);
  const int file = ::open((folder_ + "/table" + std::to_string(sizeof(SharedTable))).c_str(), kOpenFlags, 0600);
  if (file < 0) return false;
  const bool sized = ::ftruncate(file, sizeof(SharedTable)) == 0;
  void* address =
      sized ? ::mmap(nullptr, sizeof(SharedTable), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  ::close(file);
  if (address != MAP_FAILED) table_ = static_cast<SharedTable*>(address);
  control_ = ::open((folder_ + "/control").c_str(), kOpenFlags, 0600);
  return table_ != nullptr && control_ >= 0;
}

bool SharedBlocks::is_locked(std::uint64_t id) const {
  struct flock lock = lock_of(F_WRLCK, id);
  return ::fcntl(control_, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

SharedRecord* SharedBlocks::find(std::uint64_t id) const {
  for (SharedRecord& record : table_->records) {
    if (id != 0 && record.id == id) return &record;
  }
  return nullptr;
}

std::string SharedBlocks::path_of(std::uint64_t id) const { return folder_ + "/" + std::to_string(id); }

std::uint64_t SharedBlocks::publish(int device, const Granules& granules, std::uint64_t size) {
  Node::get()->note(Unmovable::kShared);
  const NodeGuard guard(*Node::get());
  std::uint32_t index = 0;
  while (index < kMaxShared && table_->records[index].id != 0) ++index;
  if (index == kMaxShared) return 0;
  SharedRecord& record = table_->records[index];
  const std::uint64_t id = ++table_->last_id;
  const int file = ::open(path_of(id).c_str(), kOpenFlags | O_EXCL, 0600);
  if (file < 0) return 0;
  const FileHeader header{kMagic, id, size, static_cast<std::uint32_t>(device), granules.count};
  std::vector<std::uint32_t> list;
  for (std::uint32_t i = 0; i < granules.count; ++i) list.push_back(granules.at(i));
  const std::size_t bytes = list.size() * sizeof(std::uint32_t);
  const bool written = ::write(file, &header, sizeof header) == sizeof header &&
                       ::write(file, list.data(), bytes) == static_cast<ssize_t>(bytes);
  ::close(file);
  if (!written) return 0;
  record.device = static_cast<std::uint32_t>(device);
  record.dropped = record.handed_on = 0;
  record.owner = current_process();
  for (ProcessIdentity& importer : record.importers) importer = {};
  for (const std::uint32_t granule : list) table_->record_of[device][granule] = static_cast<std::uint16_t>(index + 1);
  record.id = id;
  ++table_->in_use;
  return id;
}

bool SharedBlocks::read_block(const std::string& path, SharedBlock& out) {
  const int data = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (data < 0) return false;
  FileHeader header{};
  const bool read = ::read(data, &header, sizeof header) == sizeof header && header.magic == kMagic;
  std::vector<std::uint32_t> list(read ? header.granule_count : 0);
  const bool whole = read && ::read(data, list.data(), list.size() * sizeof(std::uint32_t)) >= 0;
  ::close(data);
  out = {header.id, static_cast<int>(header.device), header.size, {}};
  out.granules.count = static_cast<std::uint32_t>(list.size());
  out.granules.first = list.empty() ? 0 : list.front();
  bool run = true;
  for (std::size_t i = 1; i < list.size(); ++i) run = run && list[i] == list[i - 1] + 1;
  if (!run) out.granules.scattered = std::move(list);
  return whole;
}

int SharedBlocks::hold(std::uint64_t id, SharedBlock& out) {
  // Under the node's lock, so that it cannot be freed between the look and the lock.
  const NodeGuard guard(*Node::get());
  if (find(id) == nullptr || !read_block(path_of(id), out)) return -1;
  const int file = ::open((folder_ + "/control").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  struct flock lock = lock_of(F_RDLCK, id);
  if (file < 0 || ::fcntl(file, F_OFD_SETLK, &lock) != 0 || ::lseek(file, static_cast<off_t>(id), SEEK_SET) < 0) {
    if (file >= 0) ::close(file);
    return -1;
  }
  return file;
}

bool SharedBlocks::import(std::uint64_t id, SharedBlock& out) {
  Node::get()->note(Unmovable::kShared);
  const NodeGuard guard(*Node::get());
  reclaim();  // what a dead process owned may be gone
  SharedRecord* record = find(id);
  if (record == nullptr || !read_block(path_of(id), out)) return false;
  const auto place = std::find_if(std::begin(record->importers), std::end(record->importers), [](const auto& importer) {
    return importer.pid == 0 || liveness(importer) == Liveness::kDead;
  });
  if (place == std::end(record->importers)) return false;
  *place = current_process();
  reclaim();
  return true;
}

bool SharedBlocks::identify(int descriptor, std::uint64_t& id) const {
  struct stat control {
  }, given{};
  if (::fstat(control_, &control) != 0 || ::fstat(descriptor, &given) != 0) return false;
  if (control.st_dev != given.st_dev || control.st_ino != given.st_ino) return false;
  const off_t position = ::lseek(descriptor, 0, SEEK_CUR);
  id = static_cast<std::uint64_t>(position);
  return position > 0;
}

bool SharedBlocks::is_own(std::uint64_t id) {
  const NodeGuard guard(*Node::get());
  const SharedRecord* record = find(id);
  return record != nullptr && record->owner.same_as(current_process());
}

void SharedBlocks::drop(std::uint64_t id) {
  const NodeGuard guard(*Node::get());
  if (SharedRecord* record = find(id); record != nullptr) record->dropped = 1;
  reclaim();
}

void SharedBlocks::release(std::uint64_t id) {
  const NodeGuard guard(*Node::get());
  if (SharedRecord* record = find(id); record != nullptr) {
    for (ProcessIdentity& importer : record->importers) {
      if (!importer.same_as(current_process())) continue;
      importer = {};
      break;
    }
  }
  reclaim();
}

void SharedBlocks::leave(const ProcessIdentity& process) {
  if (table_->in_use == 0) return;
  for (SharedRecord& record : table_->records) {
    if (record.id == 0) continue;
    if (record.owner.same_as(process)) record.dropped = 1;
    for (ProcessIdentity& importer : record.importers) {
      if (importer.same_as(process)) importer = {};
    }
  }
}

// To an importer that lives, or to nobody while a descriptor does. False: nobody holds it any more.
bool SharedBlocks::hand_on(SharedRecord& record) {
  const auto heir = std::find_if(std::begin(record.importers), std::end(record.importers), [](const auto& importer) {
    return importer.pid != 0 && liveness(importer) != Liveness::kDead;
  });
  const ProcessIdentity to = heir == std::end(record.importers) ? ProcessIdentity{} : *heir;
  if (to.pid == 0 && !is_locked(record.id)) return false;
  if (record.handed_on != 0 && record.heir.same_as(to)) return true;
  const auto index = static_cast<std::uint16_t>(&record - table_->records + 1);
  const auto covers_it = [&](std::uint32_t granule) { return table_->record_of[record.device][granule] == index; };
  Node::get()->hand_on_locked(static_cast<int>(record.device), covers_it, to);
  record.heir = to;
  record.handed_on = 1;
  return true;
}

void SharedBlocks::reclaim() {
  if (table_->in_use == 0) return;
  for (std::uint32_t index = 0; index < kMaxShared; ++index) {
    SharedRecord& record = table_->records[index];
    if (record.id == 0 || (record.dropped == 0 && liveness(record.owner) != Liveness::kDead)) continue;
    if (hand_on(record)) continue;
    ::unlink(path_of(record.id).c_str());
    Granules granules;
    for (std::uint32_t granule = 0; granule < Node::get()->places(static_cast<int>(record.device)); ++granule) {
      if (table_->record_of[record.device][granule] != index + 1) continue;
      table_->record_of[record.device][granule] = 0;
      granules.scattered.push_back(granule);
    }
    granules.count = static_cast<std::uint32_t>(granules.scattered.size());
    if (granules.count > 0) Node::get()->give_locked(static_cast<int>(record.device), granules);
    record = {};
    --table_->in_use;
  }
}

bool SharedBlocks::covers(int device, std::uint32_t granule) const { return table_->record_of[device][granule] != 0; }

}  // namespace ration::sim
