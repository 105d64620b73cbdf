#include "cli/holders.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

namespace ration::cli {

std::string command_of(std::int32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::replace(text.begin(), text.end(), '\0', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text.substr(0, 60);
}

namespace {

std::string user_of(std::int32_t pid) {
  struct stat status {};
  if (::stat(fmt::format("/proc/{}", pid).c_str(), &status) != 0) return {};
  const passwd* entry = ::getpwuid(status.st_uid);
  return entry != nullptr ? entry->pw_name : fmt::format("uid {}", status.st_uid);
}

}  // namespace

std::vector<Holder> holders(const ledger::Store& store) {
  std::vector<Holder> all;
  for (const auto& stored : store.list()) {
    if (!stored.live) continue;
    ledger::Book book;
    if (ledger::Book::open(stored.path.c_str(), book) == ledger::BookStatus::kOk) book.reap();
    ledger::BookSnapshot now;
    if (ledger::Book::read(stored.path.c_str(), now) != ledger::BookStatus::kOk) continue;
    for (std::size_t account = 0; account < now.accounts.size(); ++account) all.push_back({stored.path, now, account});
  }
  return all;
}

std::vector<Ungoverned> ungoverned(const machine::Device& device, const std::vector<Holder>& holders) {
  std::vector<Ungoverned> found;
  if (!device.processes) return found;
  const auto own_namespace = current_process().pid_namespace;
  for (const auto& process : *device.processes) {
    const bool known = std::any_of(holders.begin(), holders.end(), [&](const Holder& holder) {
      return std::any_of(holder.book.processes.begin(), holder.book.processes.end(), [&](const auto& member) {
        return member.identity.pid == process.pid && member.identity.pid_namespace == own_namespace;
      });
    });
    if (!known)
      found.push_back({process.pid, command_of(process.pid), user_of(process.pid), process.held, process.untold});
  }
  return found;
}

std::string shares_sentence(const Session& session, const std::vector<DeviceShare>& shares) {
  std::vector<std::string> parts;
  for (const DeviceShare& share : shares) {
    if (share.away || std::max(share.used, share.guarantee) == Bytes{0}) continue;
    parts.push_back(
        fmt::format("{} {}{}", share.who, session.size(share.used),
                    share.guarantee > share.used ? fmt::format(" (promised {})", session.size(share.guarantee)) : ""));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string holders_sentence(const Session& session, const machine::Device& device,
                             const std::vector<Holder>& holders) {
  std::vector<DeviceShare> shares;
  for (const Holder& holder : holders)
    if (holder.entry().device == device.bytes)
      shares.push_back({holder.book.name, holder.entry().used, holder.entry().guarantee});
  std::vector<std::string> parts;
  if (std::string governed = shares_sentence(session, shares); !governed.empty()) parts.push_back(std::move(governed));
  for (const Ungoverned& process : ungoverned(device, holders)) {
    parts.push_back(fmt::format("not governed: pid {} {} ({}) {}", process.pid, process.command, process.user,
                                session.size(process.held, process.untold)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::optional<policy::LimitRoom> room_for(const Session& session, const ledger::BookSnapshot& book,
                                          const ledger::Denial& denial) {
  const auto store = session.store();
  const auto machine = session.machine();
  if (!store || !machine || denial.account >= book.accounts.size()) return std::nullopt;
  const auto& account = book.accounts[denial.account];
  for (const auto& device : machine->devices) {
    if (device.bytes != account.device) continue;
    policy::LimitRoom room{{}, {}, device.index, book.accounts.size() > 1};
    Bytes kept;
    for (const Holder& other : holders(*store)) {
      const auto& entry = other.entry();
      if (entry.device != device.bytes || other.book.run_number == book.run_number) continue;
      const Bytes unused = entry.guarantee - std::min(entry.guarantee, entry.used);
      kept += unused;
      if (unused > room.promise.guarantee - std::min(room.promise.guarantee, room.promise.used))
        room.promise = {other.book.name, entry.guarantee, entry.used};
    }
    room.grantable = account.used + device.room() - std::min(device.room(), kept);
    return room;
  }
  return std::nullopt;
}

}  // namespace ration::cli
