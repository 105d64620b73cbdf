#include "node/books/folder_claims.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "base/own_folder.hpp"
#include "node/books/machine_daemon.hpp"
#include "node/books/registry.hpp"

namespace ration::node {
namespace {

using namespace std::chrono_literals;

std::string lock_of_owner(const std::string& folder) { return folder + "/daemon.lock"; }
std::string lock_of_adopter(const std::string& folder) { return folder + "/adopted.lock"; }

}  // namespace

Result<void> FolderClaims::claim(const std::string& folder) {
  own_folder_ = real_path(folder);
  const std::string path = lock_of_owner(own_folder_);
  FileLock lock = lock_file(path);
  // Another daemon that probes this folder holds the lock for an instant.
  for (int tries = 0; lock.taken && tries < 10; ++tries) {
    std::this_thread::sleep_for(10ms);
    lock = lock_file(path);
  }
  if (lock.taken)
    return fail("E1504",
                fmt::format("the books in {} are governed by another daemon: {}.", folder, governor_of(folder)),
                "systemctl status rationd    or give this daemon a folder of its own: RATION_RUNTIME_DIR=FOLDER "
                "ration serve --state FOLDER --socket FOLDER/ration.sock",
                1);
  if (!lock.file)
    return fail("E1507", fmt::format("{} cannot be made.", path), "ls -ld " + own_folder_ + "   df " + own_folder_, 1);
  own_ = std::move(lock);
  return {};
}

bool FolderClaims::is_governed_elsewhere(const std::string& folder) {
  if (is_own(folder)) return false;
  const std::string owner = lock_of_owner(folder), adopter = lock_of_adopter(folder);
  if (is_locked(owner) && is_honoured(owner)) {
    adopted_.erase(folder);
    return true;
  }
  FileLock& lock = adopted_[folder];
  if (!lock.in_place()) lock = lock_file(adopter);
  return lock.taken && is_honoured(adopter);
}

std::string FolderClaims::governor_of(const std::string& folder) {
  auto pid = lock_holder(lock_of_owner(folder));
  if (!pid) pid = lock_holder(lock_of_adopter(folder));
  return pid ? fmt::format("pid {}", *pid) : "its pid is not visible from here";
}

}  // namespace ration::node
