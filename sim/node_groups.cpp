// Limits of cgroups, as the driver of release 615 enforces them. This file models its `dmem` mode: a group's use
// includes the groups below it, and every limit on the way to the root binds. (The other mode, `misc`, is for kernels
// without the `dmem` controller and knows only the nearest limit.) A process is charged to the group that it is in when
// it first uses the node.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "node_state.hpp"
#include "shared_blocks.hpp"
#include "steps.hpp"

namespace ration::sim {
namespace {

/// Returns true if `group` is the group `above`, or a group below it.
bool within(const char* group, const char* above) {
  const std::size_t length = std::strlen(above);
  return std::strncmp(group, above, length) == 0 && (group[length] == '\0' || group[length] == '/');
}

/// Returns the bytes that count towards the limits of the process's groups: neither managed memory nor memory that a
/// checkpoint moved to the host.
std::uint64_t charged(const ProcessRecord& process, int device) {
  return process.parked != 0 ? 0 : process.granules[device] * kGranule.count() + process.contexts[device];
}

std::uint64_t inode_of(const char* folder) {
  struct stat status {};
  return ::stat(folder, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

std::string own_group() {
  // Tests set the group by this variable, because an ordinary user cannot make cgroups, and a container sees its own
  // cgroup as the root.
  if (const char* given = std::getenv("RATION_SIM_CGROUP"); given != nullptr && *given != '\0') return given;
  std::string group = "/sys/fs/cgroup";
  std::FILE* file = std::fopen("/proc/self/cgroup", "re");
  if (file == nullptr) return group;
  char line[kMaxGroupPath];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, "0::/", 4) != 0) continue;  // the line of cgroup version 2
    line[std::strcspn(line, "\n")] = '\0';
    if (line[4] != '\0') group += line + 3;
  }
  std::fclose(file);
  return group.size() < kMaxGroupPath ? group : std::string();
}

bool find_group(const char* path, std::string& out) {
  char* real = path[0] == '/' ? ::realpath(path, nullptr) : nullptr;
  if (real == nullptr) return false;
  out = real;
  std::free(real);
  return out.size() < kMaxGroupPath && ::access((out + "/cgroup.procs").c_str(), F_OK) == 0;
}

void Node::forget_removed_groups() {
  for (GroupRecord& group : state_->groups) {
    if (group.path[0] == '\0' || inode_of(group.path) == group.inode) continue;
    group.path[0] = '\0';
    step();
  }
  recount_groups();
}

void Node::recount_groups() {
  state_->groups_in_use =
      static_cast<std::uint32_t>(std::count_if(std::begin(state_->groups), std::end(state_->groups),
                                               [](const GroupRecord& group) { return group.path[0] != '\0'; }));
}

GroupLimits Node::limits_of_locked(const char* path, int device) const {
  GroupLimits result;
  for (const GroupRecord& group : state_->groups) {
    if (std::strcmp(group.path, path) == 0 && group.path[0] != '\0')
      result = {Bytes{group.soft[device]}, Bytes{group.hard[device]}, {}};
  }
  for (const ProcessRecord& process : state_->processes) {
    if (process.in_use != 0 && within(process.group, path)) result.used += Bytes{charged(process, device)};
  }
  return result;
}

MemorySeen Node::seen_locked(const char* path, int device) const {
  MemorySeen seen;
  seen.total = models()[static_cast<std::size_t>(device)].total;
  seen.free = free_locked(device);
  if (state_->groups_in_use != 0) {
    for (const GroupRecord& group : state_->groups) {
      if (group.path[0] == '\0' || group.hard[device] == kNoGroupLimit.count() || !within(path, group.path)) continue;
      const GroupLimits limits = limits_of_locked(group.path, device);
      const Bytes left = limits.used < limits.hard ? limits.hard - limits.used : Bytes{0};
      if (limits.hard < seen.total) seen.total = limits.hard, seen.used = limits.used;
      seen.headroom = std::min(seen.headroom, left);
    }
  }
  seen.free = std::min(seen.free, seen.headroom);
  return seen;
}

Bytes Node::headroom_locked(int slot, int device) const {
  if (state_->groups_in_use == 0) return kNoGroupLimit;
  return seen_locked(state_->processes[slot].group, device).headroom;
}

bool Node::set_limits(int device, const std::string& path, Bytes soft, Bytes hard) {
  lock();
  forget_removed_groups();
  const auto named = [&](const std::string& name) {
    return std::find_if(std::begin(state_->groups), std::end(state_->groups),
                        [&](const GroupRecord& group) { return name == group.path; });
  };
  auto group = named(path);
  if (group == std::end(state_->groups) && (group = named("")) != std::end(state_->groups)) {
    *group = {};
    std::memcpy(group->path + 1, path.c_str() + 1, path.size());
    group->inode = inode_of(path.c_str());
    std::fill(std::begin(group->hard), std::end(group->hard), kNoGroupLimit.count());
    step();
    group->path[0] = path[0];
    step();
  }
  const bool room = group != std::end(state_->groups);
  if (room) {
    group->soft[device] = soft.count();
    step();
    group->hard[device] = hard.count();
    step();
    const bool limited =
        std::any_of(std::begin(group->hard), std::end(group->hard),
                    [](std::uint64_t bytes) { return bytes != kNoGroupLimit.count(); }) ||
        std::any_of(std::begin(group->soft), std::end(group->soft), [](std::uint64_t bytes) { return bytes != 0; });
    if (!limited) group->path[0] = '\0';
    step();
    recount_groups();
  }
  unlock();
  return room;
}

GroupLimits Node::limits(int device, const std::string& path) {
  reap_if_anybody_died();
  lock();
  forget_removed_groups();
  const GroupLimits result = limits_of_locked(path.c_str(), device);
  unlock();
  return result;
}

MemorySeen Node::seen(int device) {
  reap_if_anybody_died();
  lock();
  if (SharedBlocks* shared = SharedBlocks::get(); shared != nullptr) shared->reclaim();
  const int own = own_process->record - 1;
  if (state_->groups_in_use != 0) forget_removed_groups();
  const std::string group = own < 0 && state_->groups_in_use != 0 ? own_group() : std::string();
  const MemorySeen result = seen_locked(own < 0 ? group.c_str() : state_->processes[own].group, device);
  unlock();
  return result;
}

}  // namespace ration::sim
