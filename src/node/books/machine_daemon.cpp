#include "node/books/machine_daemon.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/file_lock.hpp"
#include "base/own_folder.hpp"
#include "base/process.hpp"
#include "base/whole_file.hpp"

namespace ration::node {
namespace {

const std::string kLock = std::string(kMachineFolder) + "/daemon.lock";
const std::string kGoverned = std::string(kMachineFolder) + "/governed-gpus";  // a UUID a line

/// Returns true if root has made the file, so that no other user can have written into it.
bool is_of_root(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == 0;
}

/// Returns true if the daemon of the machine has governed one of these devices since the machine started.
bool are_of_machine_daemon(const std::vector<std::string>& uuids) {
  if (!is_of_root(kLock) || !is_of_root(kGoverned)) return false;
  const std::string governed = "\n" + read_whole(kGoverned).value_or("");
  return std::any_of(uuids.begin(), uuids.end(),
                     [&](const std::string& uuid) { return governed.find("\n" + uuid + "\n") != std::string::npos; });
}

std::vector<std::string> uuids_of(const std::vector<machine::Device>& devices) {
  std::vector<std::string> uuids;
  for (const machine::Device& device : devices) uuids.push_back(device.uuid);
  return uuids;
}

}  // namespace

bool is_of_machine(const std::string& own_folder) { return ::getuid() == 0 && own_folder == kMachineFolder; }

void publish_governed(const std::vector<machine::Device>& devices) {
  std::string lines;
  for (const machine::Device& device : devices) lines += device.uuid + "\n";
  if (read_whole(kGoverned).value_or("") != lines) (void)write_whole(kGoverned, lines, 0644);
}

bool machine_daemon_governs(const std::vector<machine::Device>& devices) {
  return ::getuid() != 0 && are_of_machine_daemon(uuids_of(devices)) && is_locked(kLock);
}

bool machine_daemon_is_missing(const std::vector<std::string>& uuids) {
  return are_of_machine_daemon(uuids) && !is_locked(kLock);
}

bool is_honoured(const std::string& lock) {
  if (::getuid() != 0) return true;
  const auto pid = lock_holder(lock);
  const auto holder = pid ? identity_of(*pid) : std::nullopt;
  return !holder || holder->user == 0;
}

}  // namespace ration::node
