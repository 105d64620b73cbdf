// The books of every workload on the node.
// Promises: books are read as hostile input, without waiting for their locks; the workload of an unreadable book keeps
// its last known values until its creator exits, and no other workload is affected; memory that a dead process left in
// a book is not counted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.hpp"
#include "book/book_reader.hpp"

namespace ration::node {

struct Workload {
  std::string path;
  std::uint32_t owner = 0;  ///< user who owns the file
  /// The user whose work it is: the user of the job if the hook for Slurm made the book as root, else the owner.
  std::uint32_t person = 0;
  std::string user;         ///< name of `person`
  book::BookSnapshot book;  ///< without dead processes; `denials` are those of the latest refresh
  std::vector<Bytes> used;  ///< bytes by account: those of living processes, unrequested ones (see AccountView), and
                            ///< those of shared memory that outlives its maker
  Bytes host_used;          ///< pinned host memory of living processes
  /// True once the run has ended and none of its processes is left. The workload stays listed while processes outside
  /// the workload hold its memory, by descriptors or as pieces of its pools.
  bool ended = false;
  Message unreadable;  ///< why the book can no longer be read; empty while the book is readable
  /// The accounts of a container's workload, as granted when the book was made. The container may have changed the
  /// accounts in the book.
  std::vector<book::AccountSnapshot> granted;
  std::uint64_t limit_changes_seen = 0;
  std::uint64_t file_number = 0;  ///< see BookReader::file_number()
  int descriptor = -1;            ///< the open file, while the workload runs
};

/// Returns the pid of the workload's `ration run` in this namespace; absent if /proc contradicts the book.
[[nodiscard]] std::optional<std::int32_t> creator_of(const Workload& workload);

/// A book that could never be read. Every user sees the event about this book, so `text` leaves out the path.
struct Damaged {
  std::string user;
  Message text;  ///< file, owner and reason
};

/// Differences between two refreshes.
struct Changes {
  std::vector<std::string> started;    ///< paths
  std::vector<Workload> ended;         ///< as last seen
  std::vector<Damaged> damaged;        ///< one entry for each file, except files that are still being made
  std::vector<std::string> altered;    ///< paths of running workloads whose books have become unreadable
  std::vector<std::string> abandoned;  ///< paths of books that a container damaged before it ended
  std::vector<std::pair<std::string, Bytes>> grown;  ///< paths of running workloads, and the new lengths of their books
  std::vector<Workload> handed_over;                 ///< running workloads that another daemon governs from now on
};

class Registry {
 public:
  /// The most folders and books of one user; further folders are rejected, further books ignored. A busy user's job
  /// array has hundreds of books.
  static constexpr std::size_t kMaxFolders = 16, kMaxBooks = 1024;
  /// The most processes and pieces of shared memory in all books of one user and tenant; further books are not read. A
  /// thousand jobs of ten processes each use a thirteenth of this number. A refresh takes about a microsecond for each
  /// entry.
  static constexpr std::size_t kMaxEntries = 131'072;

  /// Returns the tenant to charge; called once per book. Without a rule, the tenant that the book names is charged.
  using TenantRule = std::function<std::string(const Workload& workload)>;
  void set_tenant_rule(TenantRule rule) { tenant_rule_ = std::move(rule); }

  /// A FolderRule, called at every refresh, returns true if another daemon governs the folder. A NodeRule, called once
  /// per book, returns true if the book belongs to this node. Without rules, every folder and book is this daemon's.
  using FolderRule = std::function<bool(const std::string& folder)>;
  using NodeRule = std::function<bool(const Workload& workload)>;
  void set_folder_rule(FolderRule rule) { folder_rule_ = std::move(rule); }
  void set_node_rule(NodeRule rule) { node_rule_ = std::move(rule); }

  /// Watches the books in `folder`/books, whatever the spelling of the path. Fails with E1530 if `folder` is not a
  /// folder, if `owner` does not own it, or if `owner` has too many folders.
  [[nodiscard]] Result<void> watch(const std::string& folder, std::uint32_t owner);
  [[nodiscard]] std::vector<std::pair<std::string, std::uint32_t>> folders() const;

  /// Reads every book again. If there are very many processes, each call checks only some of them for their end; all
  /// are checked within seconds.
  Changes refresh();

  /// Returns the running workloads by path.
  [[nodiscard]] const std::map<std::string, Workload>& workloads() const { return workloads_; }
  /// Finds a running workload by its name, `USER/NAME`, `TENANT/NAME` or the number of its run. If several match,
  /// returns the one that belongs to `asker`, and fails with E1802 unless exactly one does. Fails with E1801 if none
  /// matches.
  [[nodiscard]] Result<const Workload*> named(const std::string& name,
                                              std::optional<std::uint32_t> asker = std::nullopt) const;

 private:
  struct ByIdentity {  // an order for fast look-up, since a book can name a thousand processes
    bool operator()(const ProcessIdentity& left, const ProcessIdentity& right) const {
      return std::tie(left.pid, left.start_time, left.pid_namespace) <
             std::tie(right.pid, right.start_time, right.pid_namespace);
    }
  };

  struct Source {
    book::BookReader reader;
    std::set<ProcessIdentity, ByIdentity> dead;  ///< dead processes that the book still names
    std::uint64_t order = 0;                     ///< rank by the time at which the book was registered
    Liveness creator = Liveness::kUnknown;
    std::uint64_t inside = 0;  ///< pid namespace of the container's processes
    book::BookSnapshot first;  ///< as first read, without processes; `tenant` is the tenant to charge
  };

  struct Folder {
    std::uint32_t owner = 0;
    /// The change time of `books`, in nanoseconds, at the last complete listing; 0 if a new listing is due. No program
    /// can set a change time.
    std::int64_t listed = 0;
  };

  enum class Examined { kTakenUp, kIgnored, kUndecided };
  /// Reads a book that is not known yet, and makes it a workload. Adds the number of its entries to `entries`.
  [[nodiscard]] Examined examine(const std::string& path, const char* opened_as, std::uint32_t owner,
                                 std::size_t& entries, Changes& changes);
  /// Drops the ignored files that are gone.
  void forget_removed(const std::string& folder, const std::set<std::string>& present);
  /// Looks for new books in the folder. Counts new books in `known_books`, the number of known books of the folder's
  /// user.
  void find_books(const std::string& folder, Folder& known, std::size_t& known_books, Changes& changes);
  void forget_empty_folders(std::uint32_t owner);
  void hand_over(const std::string& folder, Folder& known, Changes& changes);
  void add_workload(Workload workload, Source source, Changes& changes);
  void read_all(Changes& changes);
  static void read_one(Workload& workload, Source& source, Changes& changes);
  /// Keeps the last values of the workload, except its processes, denials, shared memory and waits, which an unreadable
  /// book can no longer prove.
  static void mark_unreadable(Workload& workload, Source& source, const Message& why, Changes& changes);
  static void read_final_state(Workload& workload, Source& source, Changes& changes);
  /// Returns true once the workload has ended: its creator has exited, its book was deleted or records an end, or its
  /// hook has removed the grant. An unreadable book whose creator is invisible also counts as ended.
  static bool has_ended(const Workload& workload, const Source& source);
  void examine_processes();
  /// If several books name the same process, assigns the process to one of them: to a book of the process's own user,
  /// else to the book that was registered first.
  void drop_duplicate_claims();
  static void remove_dead_processes(Workload& workload, Source& source);

  std::map<std::string, Folder> folders_;
  std::map<std::string, Workload> workloads_;
  std::map<std::string, Source> sources_;  // same keys and order as workloads_
  std::set<std::string> ignored_;          // paths of ended and damaged books
  std::string last_examined_;
  std::uint64_t added_ = 0;
  FolderRule folder_rule_ = [](const std::string&) { return false; };
  NodeRule node_rule_ = [](const Workload&) { return true; };
  TenantRule tenant_rule_ = [](const Workload& workload) { return workload.book.tenant; };
};

}  // namespace ration::node
