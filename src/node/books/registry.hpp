// The books of every workload on the node. Used by the daemon's sampling.
// Promises: books are read as hostile input and no lock of theirs is ever waited for; a book that cannot be read costs
// nobody else anything, and its workload stays what it was until whoever it ends with has ended; what a dead process
// left in a book is not counted.
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
  std::uint32_t owner = 0;   ///< user whose file the book is
  std::uint32_t person = 0;  ///< user whose work it is: the owner; of a job whose book root made, the job's
  std::string user;          ///< that one's name
  book::BookSnapshot book;   ///< without processes that are dead; `denials` holds those new in the last refresh
  std::vector<Bytes> used;   ///< by account: what living processes hold, requested or not, and what others keep of it
  bool ended = false;        ///< what it made is held elsewhere: by descriptors, or pieces of its pools
  std::string unreadable;    ///< why its book cannot be read any more; empty: it can
  /// By account, of a container's, as it was when the book was made: the container can write anything else into that.
  std::vector<book::AccountSnapshot> granted;
  std::uint64_t limit_changes_seen = 0;
  std::uint64_t file_number = 0;  ///< as BookReader has it
  int descriptor = -1;            ///< of the open file, while it runs
};

/// The number of its `ration run`, as this process sees it; absent: what the book says of it is not so.
[[nodiscard]] std::optional<std::int32_t> creator_of(const Workload& workload);

/// A book that could never be read. Everybody is told: where it lies is left out.
struct Damaged {
  std::string user;
  std::string text;  ///< what it is, and why
};

/// What happened since the last refresh.
struct Changes {
  std::vector<std::string> started;  ///< paths
  std::vector<Workload> ended;       ///< as they were last seen
  std::vector<Damaged> damaged;      ///< once a file that is not being made at this moment
  std::vector<std::string> altered;  ///< paths of running workloads whose books cannot be read from now on
  std::vector<std::string> left;     ///< paths of books that containers damaged which have ended
  std::vector<std::pair<std::string, Bytes>> grown;  ///< paths of running workloads, and how long their files are
  std::vector<Workload> handed_over;                 ///< still running, and another daemon's to govern from now on
};

class Registry {
 public:
  /// Of one user; more are rejected, or left out. A job array of a busy user has hundreds.
  static constexpr std::size_t kMaxFolders = 16, kMaxBooks = 1024;
  /// Processes and shared memory in all books of one user that one tenant is charged for; what is in further books is
  /// not believed. A thousand jobs of ten processes have a thirteenth of it. One takes about a microsecond of each
  /// look.
  static constexpr std::size_t kMaxEntries = 131'072;

  /// Who may be charged for a workload: asked once for each book, with what the book says. Without a rule the book is
  /// believed.
  using TenantRule = std::function<std::string(const Workload& workload)>;
  void set_tenant_rule(TenantRule rule) { tenant_rule_ = std::move(rule); }

  /// Whether a folder's books are somebody else's, asked at every refresh; and whether a book is of this node, asked
  /// once. Without a rule all are ours.
  using FolderRule = std::function<bool(const std::string& folder)>;
  using NodeRule = std::function<bool(const Workload& workload)>;
  void set_folder_rule(FolderRule is_anothers) { is_anothers_ = std::move(is_anothers); }
  void set_node_rule(NodeRule is_of_this_node) { is_of_this_node_ = std::move(is_of_this_node); }

  /// From now on the books in `folder`/books are watched, whatever its spelling. E1530: the folder is not `owner`'s, or
  /// no folder, or one too many.
  [[nodiscard]] Result<void> adopt(const std::string& folder, std::uint32_t owner);
  [[nodiscard]] std::vector<std::pair<std::string, std::uint32_t>> folders() const;

  /// Reads every book again. Of very many processes a part is looked up each time, all of them within seconds.
  Changes refresh();

  /// Running workloads, by path.
  [[nodiscard]] const std::map<std::string, Workload>& workloads() const { return workloads_; }
  /// The running workload of that name: its own, `USER/NAME`, `TENANT/NAME` or the number of its run. Of several the
  /// one that is `asker`'s, if only one is. E1801: none. E1802: several.
  [[nodiscard]] Result<const Workload*> named(const std::string& name,
                                              std::optional<std::uint32_t> asker = std::nullopt) const;

 private:
  struct ByIdentity {  // a book can name a thousand, and each is looked for
    bool operator()(const ProcessIdentity& left, const ProcessIdentity& right) const {
      return std::tie(left.pid, left.start_time, left.pid_namespace) <
             std::tie(right.pid, right.start_time, right.pid_namespace);
    }
  };

  struct Source {
    book::BookReader reader;
    std::set<ProcessIdentity, ByIdentity> dead;  ///< still entered in the book
    std::uint64_t order = 0;                     ///< of taking up
    Liveness creator = Liveness::kUnknown;
    std::uint64_t inside = 0;  ///< the pid namespace of a container's processes
    book::BookSnapshot first;  ///< as it was taken up, without processes; its tenant is who is charged
  };

  struct Folder {
    std::uint32_t owner = 0;
    /// Of its `books`, in nanoseconds: when something was last made or taken away there, and all of that was seen. 0:
    /// it has to be listed again. Nobody can set that time by hand.
    std::int64_t listed = 0;
  };

  /// `taken_up`: how many books of that user are known.
  void look_for_books(const std::string& folder, Folder& known, std::size_t& taken_up, Changes& changes);
  void leave_empty_folders(std::uint32_t owner);
  void hand_over(const std::string& folder, Folder& known, Changes& changes);
  void take_up(Workload workload, Source source, Changes& changes);
  void read_all(Changes& changes);
  static void read_one(Workload& workload, Source& source, Changes& changes);
  /// It counts as it was last read, without what anybody would believe of it now.
  static void mark_unreadable(Workload& workload, Source& source, const std::string& why, Changes& changes);
  static void read_the_rest(Workload& workload, Source& source, Changes& changes);
  /// Whether whoever it ends with has ended.
  static bool is_over(const Workload& workload, const Source& source);
  void examine_processes();
  /// A process runs under one book. Where another one names it, too, the one of its user counts, or who came first.
  void drop_duplicate_claims();
  static void leave_out_the_dead(Workload& workload, Source& source);

  std::map<std::string, Folder> folders_;
  std::map<std::string, Workload> workloads_;
  std::map<std::string, Source> sources_;  // by path: the same as workloads_, in the same order
  std::set<std::string> passed_over_;      // ended or damaged files
  std::string examined_last_;
  std::uint64_t taken_up_ = 0;
  FolderRule is_anothers_ = [](const std::string&) { return false; };
  NodeRule is_of_this_node_ = [](const Workload&) { return true; };
  TenantRule tenant_rule_ = [](const Workload& workload) { return workload.book.tenant; };
};

}  // namespace ration::node
