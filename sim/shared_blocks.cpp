#include "shared_blocks.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.hpp"

namespace ration::sim {

inline constexpr std::uint32_t kMaxShared = 4096;

struct SharedRecord {
  std::uint64_t id;  // 0 = unused
  std::uint32_t device;
  std::uint32_t dropped;
  ProcessIdentity owner;
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
  const int file = ::open((folder_ + "/table").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const bool sized = ::ftruncate(file, sizeof(SharedTable)) == 0;
  void* address =
      sized ? ::mmap(nullptr, sizeof(SharedTable), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  ::close(file);
  if (address != MAP_FAILED) table_ = static_cast<SharedTable*>(address);
  return table_ != nullptr;
}

std::string SharedBlocks::path_of(std::uint64_t id) const { return folder_ + "/" + std::to_string(id); }

std::uint64_t SharedBlocks::publish(int device, const Granules& granules, std::uint64_t size) {
  const NodeGuard guard(*Node::get());
  std::uint32_t index = 0;
  while (index < kMaxShared && table_->records[index].id != 0) ++index;
  if (index == kMaxShared) return 0;
  SharedRecord& record = table_->records[index];
  const std::uint64_t id = ++table_->last_id;
  const int file = ::open(path_of(id).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
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
  record.dropped = 0;
  record.owner = current_process();
  for (const std::uint32_t granule : list) table_->record_of[device][granule] = static_cast<std::uint16_t>(index + 1);
  record.id = id;
  ++table_->in_use;
  return id;
}

int SharedBlocks::hold(std::uint64_t id, SharedBlock& out) {
  const int file = ::open(path_of(id).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  // Under the node's lock, so that it cannot be freed between the look and the lock.
  const NodeGuard guard(*Node::get());
  FileHeader header{};
  struct stat status {};
  if (::flock(file, LOCK_SH | LOCK_NB) != 0 || ::fstat(file, &status) != 0 || status.st_nlink == 0 ||
      ::read(file, &header, sizeof header) != sizeof header || header.magic != kMagic) {
    ::close(file);
    return -1;
  }
  out = {id, static_cast<int>(header.device), header.size, {}};
  std::vector<std::uint32_t> list(header.granule_count);
  if (::read(file, list.data(), list.size() * sizeof(std::uint32_t)) < 0) list.clear();
  out.granules.count = static_cast<std::uint32_t>(list.size());
  out.granules.first = list.empty() ? 0 : list.front();
  bool run = true;
  for (std::size_t i = 1; i < list.size(); ++i) run = run && list[i] == list[i - 1] + 1;
  if (!run) out.granules.scattered = std::move(list);
  return file;
}

bool SharedBlocks::identify(int descriptor, std::uint64_t& id) {
  FileHeader header{};
  if (::pread(descriptor, &header, sizeof header, 0) != sizeof header || header.magic != kMagic) return false;
  id = header.id;
  return true;
}

bool SharedBlocks::is_own(std::uint64_t id) {
  const NodeGuard guard(*Node::get());
  for (const SharedRecord& record : table_->records) {
    if (record.id == id) return record.owner.same_as(current_process());
  }
  return false;
}

void SharedBlocks::drop(std::uint64_t id) {
  const NodeGuard guard(*Node::get());
  for (SharedRecord& record : table_->records) {
    if (record.id == id) record.dropped = 1;
  }
  reclaim();
}

void SharedBlocks::release(int hold) {
  ::close(hold);
  const NodeGuard guard(*Node::get());
  reclaim();
}

void SharedBlocks::reclaim() {
  if (table_->in_use == 0) return;
  for (std::uint32_t index = 0; index < kMaxShared; ++index) {
    SharedRecord& record = table_->records[index];
    if (record.id == 0 || (record.dropped == 0 && liveness(record.owner) != Liveness::kDead)) continue;
    const std::string path = path_of(record.id);
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const bool held = file >= 0 && ::flock(file, LOCK_EX | LOCK_NB) != 0;
    if (!held) {
      ::unlink(path.c_str());
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
    if (file >= 0) ::close(file);
  }
}

bool SharedBlocks::covers(int device, std::uint32_t granule) const { return table_->record_of[device][granule] != 0; }

}  // namespace ration::sim
