#include "node/books/registry.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/byte_lock.hpp"
#include "base/file.hpp"
#include "base/labels.hpp"
#include "base/own_folder.hpp"
#include "base/process.hpp"
#include "base/say.hpp"
#include "base/strings.hpp"
#include "book/book.hpp"
#include "book/container_books.hpp"
#include "book/status_message.hpp"
#include "machine/process_origin.hpp"
#include "machine/user_names.hpp"

namespace ration::node {
namespace {

using book::BookReader;
using book::BookSnapshot;
using book::BookStatus;

// The number of process checks in one refresh. A check takes about 15 us: 512 of them, twice a second, cost 1.5 % of a
// core, and 5,000 processes are checked within five seconds.
constexpr std::size_t kExaminedAtOnce = 512;

// The most entries of new books that one refresh reads in one folder; the next refresh reads on. Reading an entry takes
// about a microsecond.
constexpr std::size_t kEntriesAtOnce = 32'768;

std::size_t entries_of(const BookSnapshot& book) { return book.processes.size() + book.shared_memory.size(); }

// The age from which a change of a file counts as old. A change time in the future was set before the clock was set
// back, and counts as old too.
constexpr std::time_t kSettledSeconds = 2;
bool is_settled(const struct stat& status) {
  return std::abs(::time(nullptr) - status.st_ctim.tv_sec) > kSettledSeconds;
}

/// Returns true while the file is so young that its writer may not have finished.
bool is_being_made(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && !is_settled(status);
}

bool is_empty(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 0;
}

/// Returns true if the process has ended. A process of a container has no pid in this namespace, and the container may
/// have written any pid. Then the lock that the process holds on the book decides.
bool is_dead(const book::ProcessSnapshot& process, const BookReader& book, std::uint64_t own_namespace,
             bool of_container) {
  if (process.identity.pid_namespace == own_namespace && !of_container)
    return liveness(process.identity, own_namespace) == Liveness::kDead;
  return !byte_is_locked(book.descriptor(), process.slot);
}

bool same_devices(const BookSnapshot& one, const BookSnapshot& other) {
  return std::equal(one.accounts.begin(), one.accounts.end(), other.accounts.begin(), other.accounts.end(),
                    [](const auto& left, const auto& right) { return left.device == right.device; });
}

/// Returns true if the book of a container names a process of the host. `inside` is the pid namespace of the container;
/// 0 if it is unknown.
bool has_process_of_host(const BookSnapshot& book, std::uint64_t inside) {
  const std::uint64_t own = own_pid_namespace();
  return inside != 0 && inside != own &&
         std::any_of(book.processes.begin(), book.processes.end(),
                     [&](const auto& each) { return each.identity.pid_namespace == own; });
}

}  // namespace

Result<void> Registry::watch(const std::string& folder, std::uint32_t owner) {
  struct stat status {};
  if (folder.empty() || folder.front() != '/' || ::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return fail("E1530", fmt::format("'{}' is not a folder of books.", folder),
                "Give the path of a folder: ration doctor", 2);
  }
  if (status.st_uid != owner) {
    return fail("E1530",
                fmt::format("the folder '{}' belongs to {}, not to {}.", folder, machine::user_name(status.st_uid),
                            machine::user_name(owner)),
                "export RATION_RUNTIME_DIR=<a folder of yours>", 5);
  }
  // A folder has many spellings and may be mounted at several places, but its books must count once.
  const std::string real = real_path(folder);
  for (auto& [known, each] : folders_) {
    struct stat other {};
    const bool same = known == real || (::lstat(known.c_str(), &other) == 0 && other.st_dev == status.st_dev &&
                                        other.st_ino == status.st_ino);
    if (!same) continue;
    if (each.owner != owner) each = Folder{owner, 0};  // the previous owner has lost the folder
    return {};
  }
  const auto count = [&] {
    return std::count_if(folders_.begin(), folders_.end(),
                         [&](const auto& each) { return each.second.owner == owner; });
  };
  if (count() >= static_cast<std::ptrdiff_t>(kMaxFolders)) forget_empty_folders(owner);
  const auto of_owner = count();
  if (of_owner >= static_cast<std::ptrdiff_t>(kMaxFolders)) {
    return fail("E1530", fmt::format("{} has {} folders of books already.", machine::user_name(owner), of_owner),
                "export RATION_RUNTIME_DIR=<one of them>", 5);
  }
  folders_[real].owner = owner;
  return {};
}

// Forgets folders without workloads. A program that starts in such a folder registers it again.
void Registry::forget_empty_folders(std::uint32_t owner) {
  std::erase_if(folders_, [&](const auto& each) {
    const std::string prefix = each.first + "/books/";
    const auto first = workloads_.lower_bound(prefix);
    const bool in_use = first != workloads_.end() && first->first.compare(0, prefix.size(), prefix) == 0;
    return each.second.owner == owner && !in_use;
  });
}

std::vector<std::pair<std::string, std::uint32_t>> Registry::folders() const {
  std::vector<std::pair<std::string, std::uint32_t>> all;
  for (const auto& [path, folder] : folders_) all.emplace_back(path, folder.owner);
  return all;
}

std::optional<std::int32_t> creator_of(const Workload& workload) {
  const auto process = identity_of(workload.book.creator.pid);
  if (!process || !process->same_as(workload.book.creator) || process->user != workload.owner) return std::nullopt;
  return process->pid;
}

namespace {

/// Returns the user to whom the work belongs. The hook for Slurm runs as root and enters the user of the job as the
/// creator.
std::uint32_t person_of(const book::BookSnapshot& granted, std::uint32_t owner) {
  const auto labels = parse_labels(granted.labels);
  const auto engine = labels.find("engine");
  const bool is_job = owner == 0 && engine != labels.end() && engine->second == "slurm";
  return is_job ? granted.creator.user : owner;
}

}  // namespace

Changes Registry::refresh() {
  Changes changes;
  std::map<std::uint32_t, std::size_t> known_books;
  for (const auto& [path, workload] : workloads_) ++known_books[workload.owner];
  for (auto& [path, folder] : folders_) {
    if (folder_rule_(path))
      hand_over(path, folder, changes);
    else
      find_books(path, folder, known_books[folder.owner], changes);
  }
  read_all(changes);
  examine_processes();
  drop_duplicate_claims();
  auto source = sources_.begin();
  for (auto each = workloads_.begin(); each != workloads_.end();) {
    remove_dead_processes(each->second, source->second);
    if (has_ended(each->second, source->second) && each->second.book.processes.empty())
      read_final_state(each->second, source->second, changes);
    const bool holds =
        std::any_of(each->second.used.begin(), each->second.used.end(), [](Bytes bytes) { return bytes > Bytes{0}; });
    each->second.ended = has_ended(each->second, source->second) && each->second.book.processes.empty();
    if (!each->second.ended || holds) {
      ++each, ++source;
      continue;
    }
    ignored_.insert(each->first);
    source = sources_.erase(source);
    changes.ended.push_back(std::move(each->second));
    each = workloads_.erase(each);
  }
  return changes;
}

bool Registry::has_ended(const Workload& workload, const Source& source) {
  if (source.creator == Liveness::kDead || source.reader.deleted()) return true;
  if (!workload.granted.empty())
    return ::access(book::granted_path(workload.path).c_str(), F_OK) != 0;  // the hook has removed the grant
  // If the creator is invisible from this pid namespace, the daemon can never observe its exit.
  return workload.book.ended_ns != 0 || (!workload.unreadable.empty() && source.creator == Liveness::kUnknown);
}

void Registry::hand_over(const std::string& folder, Folder& known, Changes& changes) {
  known.listed = 0;
  const std::string prefix = folder + "/books/";
  for (auto each = workloads_.lower_bound(prefix);
       each != workloads_.end() && each->first.compare(0, prefix.size(), prefix) == 0;) {
    sources_.erase(each->first);
    changes.handed_over.push_back(std::move(each->second));
    each = workloads_.erase(each);
  }
}

Registry::Examined Registry::examine(const std::string& path, const char* opened_as, std::uint32_t owner,
                                     std::size_t& entries, Changes& changes) {
  Source source;
  BookStatus read = BookReader::open(opened_as, source.reader);
  const bool opened = read == BookStatus::kOk && source.reader.owner() == owner;
  BookSnapshot book;
  if (read == BookStatus::kOk) read = opened ? source.reader.read(book) : BookStatus::kForeign;
  auto granted = opened ? book::read_granted(path, owner) : std::nullopt;
  entries += entries_of(book);
  const bool of_container = opened && source.reader.everybody_may_write();
  if ((read != BookStatus::kOk || of_container) && !granted && is_being_made(path)) return Examined::kUndecided;
  if (granted && liveness(granted->creator) == Liveness::kDead && read != BookStatus::kOk) {
    changes.abandoned.push_back(path);
    return Examined::kIgnored;
  }
  if (is_empty(path) && !granted) return Examined::kIgnored;  // an empty file from a hook that was killed
  if (read != BookStatus::kOk && !granted) {
    const std::string file = path.substr(path.rfind('/') + 1), whose = machine::user_name(owner);
    changes.damaged.push_back(
        {whose, say<"book.of_user">("user"_is(whose), "file"_is(file), "reason"_is(book::message_of(read)))});
    return Examined::kIgnored;
  }
  Workload workload;
  workload.path = path;
  workload.owner = owner;
  workload.person = granted ? person_of(*granted, owner) : owner;
  workload.user = machine::user_name(workload.person);
  workload.book = read == BookStatus::kOk ? std::move(book) : *granted;
  if (granted) {
    book::restore_identity(workload.book, *granted);
    workload.granted = granted->accounts;
    std::int32_t pid = 0;
    (void)machine::inner_identity(granted->creator.pid, pid, source.inside);
    if (!same_devices(workload.book, *granted)) workload.book = *granted;  // the next read reports the change
  }
  add_workload(std::move(workload), std::move(source), changes);
  return Examined::kTakenUp;
}

void Registry::forget_removed(const std::string& folder, const std::set<std::string>& present) {
  const std::string prefix = folder + "/books/";
  for (auto each = ignored_.lower_bound(prefix);
       each != ignored_.end() && each->compare(0, prefix.size(), prefix) == 0;) {
    each = present.count(*each) == 0 ? ignored_.erase(each) : std::next(each);
  }
}

void Registry::find_books(const std::string& folder, Folder& known, std::size_t& known_books, Changes& changes) {
  const std::uint32_t owner = known.owner;
  std::error_code error;
  std::set<std::string> present;
  std::size_t entries = 0;
  // The open descriptor keeps pointing here even if the path becomes a link to another folder.
  const FileDescriptor books{::open((folder + "/books").c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  struct stat status {};
  const bool own = books && ::fstat(books.get(), &status) == 0 && status.st_uid == owner;
  const std::int64_t changed = status.st_ctim.tv_sec * std::int64_t{1'000'000'000} + status.st_ctim.tv_nsec;
  if (own && changed == known.listed) return;
  // Files made within one granule of the clock share a time stamp, so a recent time stamp proves nothing.
  known.listed = own && is_settled(status) ? changed : 0;
  const std::string inside = own ? fmt::format("/proc/self/fd/{}", books.get()) : std::string();
  if (!own) error = std::make_error_code(std::errc::not_a_directory);
  for (std::filesystem::directory_iterator each = own ? std::filesystem::directory_iterator(inside, error)
                                                      : std::filesystem::directory_iterator(),
                                           end;
       !error && each != end; each.increment(error)) {
    const std::string path = folder + "/books/" + each->path().filename().string();
    if (present.size() >= kMaxBooks) {
      known.listed = 0;
      break;
    }
    present.insert(path);
    if (workloads_.count(path) != 0 || ignored_.count(path) != 0) continue;
    if (each->path().extension() != book::kBookEnding) continue;
    if (known_books >= kMaxBooks || entries >= kEntriesAtOnce) {
      known.listed = 0;
      continue;
    }
    const Examined book = examine(path, each->path().c_str(), owner, entries, changes);
    if (book == Examined::kUndecided) known.listed = 0;  // the next tick decides
    if (book == Examined::kIgnored) ignored_.insert(path);
    if (book == Examined::kTakenUp) ++known_books;
  }
  if (error)
    known.listed = 0;  // the listing is incomplete
  else
    forget_removed(folder, present);
}

void Registry::add_workload(Workload workload, Source source, Changes& changes) {
  workload.limit_changes_seen = workload.book.limit_changes;
  workload.file_number = source.reader.file_number();
  workload.descriptor = source.reader.descriptor();
  const std::string path = workload.path;
  if (!node_rule_(workload)) {
    ignored_.insert(path);
    return;
  }
  source.first = workload.book;
  source.first.processes.clear();
  source.first.denials.clear();
  source.first.tenant = tenant_rule_(workload);
  source.order = ++added_;
  // Makes read_one() read earlier denials again, and report them.
  workload.book.denial_count = 0;
  changes.started.push_back(path);
  workloads_.emplace(path, std::move(workload));
  sources_.emplace(path, std::move(source));
}

void Registry::read_all(Changes& changes) {
  std::map<std::pair<std::uint32_t, std::string_view>, std::size_t> entries;
  auto each = sources_.begin();
  for (auto& [path, workload] : workloads_) {
    Source& source = (each++)->second;
    std::size_t& so_far = entries[{workload.owner, source.first.tenant}];
    if (so_far < kMaxEntries)
      read_one(workload, source, changes);
    else
      mark_unreadable(workload, source, say<"book.too_many_entries">(), changes);
    so_far += entries_of(workload.book);
  }
}

void Registry::read_one(Workload& workload, Source& source, Changes& changes) {
  BookSnapshot book;
  const BookStatus status = source.reader.read(book, workload.book.denial_count);
  if (source.reader.grown_to() > Bytes{0}) changes.grown.emplace_back(workload.path, source.reader.grown_to());
  const BookSnapshot& first = source.first;
  Message why;
  if (status != BookStatus::kOk)
    why = book::message_of(status);
  else if (!same_devices(book, first))
    why = say<"book.other_devices">();
  else if (!workload.granted.empty() && has_process_of_host(book, source.inside))
    why = say<"book.outside_process">();
  if (!why.empty()) return mark_unreadable(workload, source, why, changes);
  workload.unreadable.clear();
  // The owner can write anything into the book, so the book's identity and devices stay as first read.
  book::restore_identity(book, first);
  if (!workload.granted.empty()) book.ended_ns = 0;  // the hook reports the end
  workload.book = std::move(book);
}

void Registry::mark_unreadable(Workload& workload, Source& source, const Message& why, Changes& changes) {
  if (std::exchange(workload.unreadable, why).empty()) changes.altered.push_back(workload.path);
  source.creator = liveness(source.first.creator);
  workload.book.tenant = source.first.tenant;
  workload.book.processes.clear();
  workload.book.denials.clear();
  workload.book.shared_memory.clear();
  workload.book.waiting = 0;
}

// Reads the book of an ended workload once more, for its last denials and its exit status.
void Registry::read_final_state(Workload& workload, Source& source, Changes& changes) {
  std::vector<book::Denial> denials = std::move(workload.book.denials);
  read_one(workload, source, changes);
  remove_dead_processes(workload, source);
  denials.insert(denials.end(), workload.book.denials.begin(), workload.book.denials.end());
  workload.book.denials = std::move(denials);
}

void Registry::drop_duplicate_claims() {
  using Key = std::pair<std::uint64_t, std::int32_t>;
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::uint64_t>{}(key.first ^ (static_cast<std::uint64_t>(key.second) << 32));
    }
  };
  std::unordered_map<Key, Workload*, Hash> of;
  for (auto& [path, workload] : workloads_) {
    const auto& dead = sources_.at(path).dead;
    for (const auto& process : workload.book.processes) {
      if (dead.contains(process.identity)) continue;
      const auto [first, is_new] = of.try_emplace({process.identity.pid_namespace, process.identity.pid}, &workload);
      if (is_new || first->second == &workload) continue;
      struct stat status {};
      const bool known = ::stat(fmt::format("/proc/{}", process.identity.pid).c_str(), &status) == 0;
      const auto rank = [&](const Workload* each) {
        const Source& source = sources_.at(each->path);
        const bool elsewhere = source.inside != 0 && source.inside != process.identity.pid_namespace;
        return std::tuple{elsewhere, known && status.st_uid == each->owner ? 0 : 1, source.order};
      };
      Workload* loser = first->second;
      if (rank(&workload) < rank(loser))
        first->second = &workload;
      else
        loser = &workload;
      sources_.at(loser->path).dead.insert(process.identity);
    }
  }
}

// Removes ended processes from the snapshot of the book. Keeps a process in `dead` only while the book still names that
// process.
void Registry::remove_dead_processes(Workload& workload, Source& source) {
  auto& processes = workload.book.processes;
  decltype(source.dead) entered;
  std::erase_if(processes, [&](const auto& process) {
    const bool is_dead = source.dead.contains(process.identity);
    if (is_dead) entered.insert(process.identity);
    return is_dead;
  });
  source.dead = std::move(entered);
  workload.used = book::held_by_living(workload.book);
  workload.host_used = book::host_held_by_living(workload.book);
  if (processes.empty()) return;
  for (std::size_t account = 0; account < workload.used.size(); ++account)
    workload.used[account] += workload.book.accounts[account].unrequested;
}

void Registry::examine_processes() {
  auto each = workloads_.upper_bound(last_examined_);
  const std::uint64_t own_namespace = own_pid_namespace();
  std::size_t examined = 0;
  for (std::size_t seen = 0; seen < workloads_.size() && examined < kExaminedAtOnce; ++seen, ++each) {
    if (each == workloads_.end()) each = workloads_.begin();
    Source& source = sources_.at(each->first);
    const BookSnapshot& book = each->second.book;
    source.creator = liveness(book.creator, own_namespace);
    const bool of_container = !each->second.granted.empty();
    for (const auto& process : book.processes) {
      if (!source.dead.contains(process.identity) && is_dead(process, source.reader, own_namespace, of_container))
        source.dead.insert(process.identity);
    }
    examined += 1 + book.processes.size();
    last_examined_ = each->first;
  }
}

Result<const Workload*> Registry::named(const std::string& name, std::optional<std::uint32_t> asker) const {
  std::vector<const Workload*> found, of_asker;
  std::vector<std::string> names;
  for (const auto& [path, workload] : workloads_) {
    const std::string& own = workload.book.name;
    names.push_back(own);
    if (name != own && name != workload.user + "/" + own && name != workload.book.tenant + "/" + own &&
        name != std::to_string(workload.book.run_number))
      continue;
    found.push_back(&workload);
    if (asker == workload.person) of_asker.push_back(&workload);
  }
  if (found.size() == 1) return found.front();
  if (of_asker.size() == 1) return of_asker.front();
  if (found.empty())
    return fail("E1801", fmt::format("no running workload is named '{}'.{}", name, suggestion(name, names)),
                "ration ps", 3);
  std::string which;
  for (const Workload* each : found)
    which +=
        fmt::format("{}{}/{} (run {})", which.empty() ? "" : ", ", each->user, each->book.name, each->book.run_number);
  return fail("E1802", fmt::format("{} workloads are named '{}': {}.", found.size(), name, which),
              fmt::format("Say which: {}/{}", found.front()->user, found.front()->book.name), 3);
}

}  // namespace ration::node
