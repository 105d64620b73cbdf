// The book of one workload: how many bytes of each device it may hold, holds, and was denied.
// Used by the shim (charges), the command line and the node daemon (limits, reading).
//
// Promises, each with a test of that name in tests/unit/ledger:
//   1. used <= limit at every instant, for any number of threads and processes, as long as the limit is not lowered
//      below what is used; and no charge is denied while the bytes are there. (Memory that its process gives up and
//      others keep is charged twice for an instant, rather than to nobody.)
//   2. Of a process killed at any instruction not one byte stays charged once it has been reaped, whatever pid
//   namespace
//      it lived in.
//   3. The limit can be changed by an outsider at any time; the next charge sees it. Below `used`, nothing is taken
//      away and nothing new is granted.
//   4. A corrupted, truncated or foreign file is rejected; it never crashes whoever opens it.
//   5. An uncontended charge and refund cost about sixteen nanoseconds, whatever the number of processes
//      (docs/benchmarks.md).
//   6. No process can delay another's charge: there is no lock between them, so none that a stopped, debugged or killed
//      process could hold.
//   7. Memory that several processes of the workload hold, or may come to hold by a descriptor, is charged once, until
//      the last of them has let go of it.
// Nothing here throws or prints; nothing allocates except where std::string or std::vector stand in the signature.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/process.hpp"

namespace ration::ledger {

struct BookLayout;
struct SharedRecord;
struct SlotRecord;
using Word = std::atomic<std::uint64_t>;

class LabelSearch;

using DeviceUuid = std::array<std::uint8_t, 16>;

/// How the name of a file ends that is a book, and how that of one that is still being made.
inline constexpr const char* kBookEnding = ".book";
inline constexpr const char* kUnfinished = ".new";

/// "The driver did not say": printed as n/a, never as a number.
inline constexpr std::uint64_t kUnknownBytes = ~std::uint64_t{0};

enum class OnDeny : std::uint32_t { kFail = 0, kWait = 1 };

/// What counts against the limit: everything the driver attributes to the process, or allocations without contexts.
enum class AccountMode : std::uint32_t { kDevice = 0, kHeap = 1 };

enum class Charged : std::uint32_t {
  kGranted,
  kOverLimit,
  kNoAccount,  ///< the workload was not given this device
  kBroken,     ///< this process has no slot, or one of its own threads does not come out of a change
};

enum class DenialReason : std::uint16_t {
  kLimit = 1,
  kDeviceFull = 2,
  kNoAccount = 3,
  kUngoverned = 4,
  kBook = 5,
  kShare = 6,  ///< a part of the program had all of its share; `used` and `limit` of the denial are the share's
};

/// Why a book was not opened or created.
enum class BookStatus : std::uint32_t {
  kOk,
  kMissing,
  kNotPermitted,
  kTruncated,
  kForeign,  ///< no book at all
  kOtherVersion,
  kDamaged,  ///< a book whose fields contradict each other
  kNoSpace,  ///< the disk is full
  kTooManyDevices,
  kSystem,  ///< errno says why
};

/// Memory that drivers do not move to the host, or not all of them: a program that has it may be lost at the attempt.
/// Flags.
enum class Unmovable : std::uint32_t {
  kManaged = 1,
  kShared = 2,  ///< exported to other processes, or imported
};

/// What the bytes of a charge are, for `ration explain`.
enum class Kind : std::uint32_t { kHeap, kContext, kPool, kManaged };

/// What of managed memory counts against the limit: all of it; what may be on the device, the rest being kept on the
/// host; nothing.
enum class ManagedPolicy : std::uint32_t { kResident = 0, kCharge = 1, kIgnore = 2 };

struct NewAccount {
  DeviceUuid device{};
  std::string device_name;
  Bytes device_total;
  Bytes limit;
  Bytes guarantee;
  Bytes context_estimate;  ///< what one CUDA context is known to cost on this device; 0 = not measured yet
};

struct NewBook {
  std::string name;
  std::string tenant;
  std::string slice;
  std::string labels;
  std::string command;
  std::string simulation;  ///< the simulated node, as --sim takes it; empty: the machine's own devices
  std::uint64_t run_number = 0;
  std::optional<ProcessIdentity> creator;  ///< with whom the workload ends; absent: the calling process
  OnDeny on_deny = OnDeny::kFail;
  std::uint64_t wait_ns = 0;
  AccountMode account_mode = AccountMode::kDevice;
  ManagedPolicy managed = ManagedPolicy::kResident;
  std::vector<NewAccount> accounts;
};

/// One denied charge, copied out of the book.
struct Denial {
  std::uint64_t sequence = 0;
  std::uint64_t time_ns = 0;
  Bytes requested;
  Bytes used;
  Bytes limit;
  std::uint64_t device_free = kUnknownBytes;
  std::int32_t pid = 0;
  std::uint32_t account = 0;
  DenialReason reason = DenialReason::kLimit;
  std::string function;
  std::uint64_t waited_ns = 0;
  DeviceUuid device{};  ///< on which it was asked for; all zeros where that is not known
};

struct AccountSnapshot {
  DeviceUuid device{};
  std::string device_name;
  Bytes device_total;
  Bytes limit;
  Bytes guarantee;
  Bytes used;
  Bytes peak;
  std::uint64_t denials = 0;
  Bytes kept;         ///< of `used`: given up by the process that took it, or that has ended, and held by others
  Bytes shared;       ///< of `used`: several processes may hold it, also some of other workloads
  Bytes unrequested;  ///< beside `used`: see Book::unrequested()
  std::uint64_t times_emptied = 0;  ///< how often the workload was left without a process
  Bytes own_limit = kUnlimited;     ///< what a program of the workload set for it; `limit` is what outsiders set
};

struct ProcessSnapshot {
  std::uint32_t slot = 0;
  ProcessIdentity identity;
  std::string command;
  std::uint64_t attached_ns = 0;
  std::vector<Bytes> held, context, pooled, managed;  // by account
  std::vector<Bytes> shared;    // by account: what it holds that others may hold, too, whoever is charged
  std::uint32_t unmovable = 0;  // of Unmovable, what it has or had
  [[nodiscard]] bool has(Unmovable what) const { return (unmovable & static_cast<std::uint32_t>(what)) != 0; }
};

/// Memory that several processes may hold, as the book has it. Processes go by their slot.
struct SharedSnapshot {
  std::uint64_t number = 0;
  std::uint64_t part_of = 0;  ///< the number of what lives while this piece is held; 0: it stands for itself
  std::uint32_t account = 0;
  std::optional<std::uint32_t> maker;  ///< who is charged what it lends; absent: it has ended
  Bytes lent;
  Bytes given_up;  ///< of what is lent
  Bytes kept;      ///< charged to nobody in particular
  std::vector<std::uint32_t> holders;
  std::uint64_t control_device = 0, control_inode = 0;  ///< of the file of its descriptors; see layout.hpp
};

/// Everything in a book at one moment, copied with bounds checks: safe to take from a file somebody else writes.
struct BookSnapshot {
  std::string name, tenant, slice, labels, command, simulation;
  std::uint64_t run_number = 0, created_ns = 0, ended_ns = 0, limit_changes = 0, denial_count = 0;
  std::uint32_t waiting = 0;          ///< threads that sleep until bytes come back
  std::uint64_t granted_waits = 0;    ///< requests that slept and then got their memory
  std::uint64_t unlisted_count = 0;   ///< functions called that no table lists and that may concern memory
  std::vector<std::string> unlisted;  ///< the newest of them by name, oldest first
  std::int32_t exit_status = 0;
  ProcessIdentity creator;
  OnDeny on_deny = OnDeny::kFail;
  AccountMode account_mode = AccountMode::kDevice;
  ManagedPolicy managed = ManagedPolicy::kResident;
  std::vector<AccountSnapshot> accounts;
  std::vector<Bytes> wanted;  ///< by account: the largest charge that sleeps until bytes come back
  std::vector<ProcessSnapshot> processes;
  std::vector<Denial> denials;  // oldest first
  std::vector<SharedSnapshot> shared_memory;
  std::string control_path;  ///< the file that exported descriptors are of
};

/// What the workload holds on each device, by account: what living processes are charged, and what others hold of
/// memory that those gave up, or that have ended; never more than the book's own count. The processes of `book` are the
/// living. As Book::reap() and Book::settle_shared() would find it; the book stays as it is, so its file may be
/// anybody's.
[[nodiscard]] std::vector<Bytes> held_by_the_living(const BookSnapshot& book);

/// What is charged to that account at this moment, by an open book. Absent: it cannot be read.
[[nodiscard]] std::optional<Bytes> used_now(int descriptor, std::uint32_t account);

/// A book read again and again without mapping it, so that a truncation meanwhile cannot harm the reader. It reads only
/// the slots ever used, and the denials only when there are new ones; all of it again, a few times at most, where
/// memory that several processes hold changed hands meanwhile. Not thread-safe.
class BookReader {
 public:
  /// Any plain file of one name: read() says whether it is a book.
  static BookStatus open(const char* path, BookReader& out) noexcept;
  /// `denials_known`: the count of denials of the last reading; older ones are left out of `out.denials`.
  BookStatus read(BookSnapshot& out, std::uint64_t denials_known = 0);
  /// The user whose file it is, whatever the book itself says.
  [[nodiscard]] std::uint32_t owner() const noexcept { return owner_; }
  /// As a container's book, when it was opened.
  [[nodiscard]] bool everybody_may_write() const noexcept { return everybody_may_write_; }
  [[nodiscard]] int descriptor() const noexcept { return file_.get(); }
  /// Of the file, from its inode and, where the file system keeps it, the time of its birth: nothing that is written
  /// into it changes that, and another file has another one until the next boot.
  [[nodiscard]] std::uint64_t file_number() const noexcept { return number_; }
  /// Whether its name was taken away, at the last reading.
  [[nodiscard]] bool deleted() const noexcept { return deleted_; }
  /// How long it was at the last reading, where that is longer than a book is; else 0.
  [[nodiscard]] Bytes grown_to() const noexcept { return grown_to_; }

 private:
  FileDescriptor file_;
  std::set<std::uint64_t> unfinished_;  // numbers of denials that had no entry yet at the last reading
  std::uint64_t number_ = 0;
  std::uint32_t owner_ = 0;
  bool deleted_ = false, everybody_may_write_ = false;
  Bytes grown_to_;
};

/// A book mapped into this process. Thread-safe after open(). Not copyable; moving is for setting up only.
class Book {
 public:
  Book() noexcept = default;

  /// Makes a new file at `path` (mode 0600, must not exist), its space reserved so that no later write can fail. It is
  /// there whole or not at all.
  static BookStatus create(const char* path, const NewBook& contents) noexcept;

  /// Maps an existing book for charging and changing. Checks every field that is used later.
  static BookStatus open(const char* path, Book& out) noexcept;

  /// Copies a book once, as BookReader does.
  static BookStatus read(const char* path, BookSnapshot& out);

  [[nodiscard]] bool is_open() const noexcept { return layout_ != nullptr; }

  /// Registers the calling process. Reaps dead ones first when no slot is free. False: every slot is taken by the
  /// living, the book is no longer at its path, or its file system keeps no locks.
  bool attach() noexcept;
  /// Gives back everything this process holds and its slot.
  void detach() noexcept;
  /// In a child after fork: forget the parent's slot without touching it, so that attach() takes one for the child.
  void forget_slot() noexcept;
  [[nodiscard]] bool attached() const noexcept { return slot_ != kNoSlot; }

  [[nodiscard]] std::uint32_t account_count() const noexcept { return account_count_; }
  /// Index of the device's account, or account_count() if the workload was not given that device.
  [[nodiscard]] std::uint32_t find_account(const DeviceUuid& device) const noexcept;

  /// Enters `size` bytes for this process if they fit under the limit. Never waits for memory. Where they are a new
  /// peak, `raised_from` is what the peak was before; else it stays as it is.
  [[nodiscard]] Charged charge(std::uint32_t account, Bytes size, Kind kind = Kind::kHeap,
                               Bytes* raised_from = nullptr) noexcept;
  /// Takes bytes off again; never more than this process holds.
  void refund(std::uint32_t account, Bytes size, Kind kind = Kind::kHeap) noexcept;
  /// Takes a charge off again that the device did not honour: what was never held is not a peak. `raised_from`: as
  /// charge() said, kUnlimited where it said nothing. Of several at once the peak may stay too high, never too low.
  void undo(std::uint32_t account, Bytes size, Kind kind, Bytes raised_from) noexcept;
  /// Enters bytes that the device has already given and nothing can take back (a context's growth): past the limit too.
  void charge_unconditionally(std::uint32_t account, Bytes size, Kind kind) noexcept;

  // Memory that several processes may hold at once (book_shared.cpp). It goes by a number of its own, and may have
  // names. One process of the workload is charged for it; when that one gives it up, or ends, while others hold it, the
  // charge stays with the workload until the last has let go. Sizes are multiples of a granule.

  /// Of what this process is charged, others may come to hold `size` bytes: it lends them. Returns the memory's number;
  /// 0: there is no room for more, so nobody will find it. `part_of`: a piece of that memory, which is held as well
  /// while somebody holds the piece; this process is a holder of the piece, too.
  [[nodiscard]] std::uint64_t share(std::uint32_t account, Bytes size, Kind kind, std::uint64_t part_of = 0) noexcept;
  /// What is lent of it from now on; where nothing was, it is entered again. For memory whose size changes.
  void set_lent(std::uint64_t number, std::uint32_t account, Bytes size, Kind kind) noexcept;
  /// Found by `key` from now on. False: there is no room for more names.
  bool add_name(std::uint64_t number, std::uint64_t key) noexcept;
  /// It is also held by a descriptor with its label (descriptor_label.hpp), for as long as that lives; or, where the
  /// descriptor could not be labelled, for as long as the book.
  void note_descriptor(std::uint64_t number, int descriptor, bool labelled) noexcept;

  /// Whether that number or name is charged to this workload; if so, this process holds it from now on, too.
  struct SharedMemory {
    std::uint64_t number = 0;
    std::uint32_t account = 0;
    Bytes size;
  };
  [[nodiscard]] bool join(std::uint64_t key, SharedMemory& out) noexcept;
  /// This process was charged `size` bytes for what goes by `key`. True: another process is charged already, and this
  /// one joined, so it gets the charge back; else the memory is entered as lent by this process. `number` is 0 if it
  /// could not be: nobody will find it.
  bool adopt(std::uint64_t key, std::uint32_t account, Bytes size, std::uint64_t& number) noexcept;
  /// Who joined holds it no longer.
  void leave(std::uint64_t number) noexcept;
  /// Who lent it gives up `size` bytes: refunded, or kept by the workload while others hold it.
  void give_up(std::uint64_t number, std::uint32_t account, Bytes size, Kind kind) noexcept;
  /// Refunds what nobody holds any more. Cheap while nothing is shared.
  void settle_shared() noexcept;

  /// This process has such memory. It stays so when the memory is freed: what the driver keeps of it is not known.
  void note(Unmovable what) noexcept;

  /// While this process means to sleep until bytes come back: between the two, refunds and raised limits wake it.
  void begin_waiting(std::uint32_t account, Bytes wanted) noexcept;
  void end_waiting() noexcept;
  /// A request that had waited got its memory. Before end_waiting() where the waiting ends with it.
  void count_granted_wait() noexcept;
  /// Sleeps until bytes may have come back or `timeout_ns` has passed. `seen` is generation() from before the charge
  /// that failed; call it between begin_waiting() and end_waiting().
  void wait_for_change(std::uint32_t seen, std::uint64_t timeout_ns) noexcept;
  [[nodiscard]] std::uint32_t generation() const noexcept;
  /// Whether some process of the workload sleeps until bytes come back.
  [[nodiscard]] bool somebody_waits() const noexcept;
  /// What a daemon may raise the account's limit to when somebody waits for it; never below the limit.
  [[nodiscard]] Bytes ceiling(std::uint32_t account) const noexcept;
  /// How often an outsider asked for what is not used.
  [[nodiscard]] std::uint64_t trim_requests() const noexcept;
  /// Denied charges so far.
  [[nodiscard]] std::uint64_t denial_count() const noexcept;

  /// Clears the slots of processes that are gone; what others hold of theirs stays charged to the workload. Returns how
  /// many bytes came back, over all accounts.
  Bytes reap() noexcept;

  struct Amount {
    Bytes used, limit;
  };
  /// Records a denied charge and returns its number (`d-RUN-NUMBER`). `device`: where no account says which it was.
  /// `instead`: of what was in the way, where that is not the account.
  std::uint64_t record_denial(std::uint32_t account, Bytes requested, DenialReason reason, const char* function,
                              std::uint64_t device_free, std::uint64_t waited_ns, const DeviceUuid& device = {},
                              const std::optional<Amount>& instead = {}) noexcept;

  /// This process called a function of the driver that no table lists and that may concern memory.
  void note_unlisted(const char* name) noexcept;

  void set_limit(std::uint32_t account, Bytes limit) noexcept;
  /// What a program of the workload sets for the workload itself: it holds beside the limit that outsiders set, and the
  /// lower of the two binds. kUnlimited takes it away.
  void set_own_limit(std::uint32_t account, Bytes limit) noexcept;
  void set_guarantee(std::uint32_t account, Bytes guarantee) noexcept;
  void mark_ended(std::int32_t exit_status) noexcept;

  /// What binds: the lower of the limit that outsiders set and the workload's own.
  [[nodiscard]] Bytes limit(std::uint32_t account) const noexcept;
  [[nodiscard]] Bytes given_limit(std::uint32_t account) const noexcept;  ///< what outsiders set
  [[nodiscard]] Bytes own_limit(std::uint32_t account) const noexcept;    ///< kUnlimited: none
  [[nodiscard]] Bytes device_total(std::uint32_t account) const noexcept;
  [[nodiscard]] DeviceUuid device(std::uint32_t account) const noexcept;
  [[nodiscard]] std::string name() const;
  [[nodiscard]] Bytes context_estimate(std::uint32_t account) const noexcept;
  [[nodiscard]] Bytes used(std::uint32_t account) const noexcept;
  [[nodiscard]] Bytes peak(std::uint32_t account) const noexcept;  ///< most that was ever in use
  /// What the driver holds for the workload beyond its charges, as a daemon found: loaded code, the local memory of
  /// kernels, contexts that no hook saw. The limit binds both together. 0 where no daemon runs.
  [[nodiscard]] Bytes unrequested(std::uint32_t account) const noexcept;
  [[nodiscard]] Bytes held_by_this_process(std::uint32_t account) const noexcept;
  /// Bytes that the account may still take, at this instant. Another thread may take them first: decide with charge().
  [[nodiscard]] Bytes headroom(std::uint32_t account) const noexcept;
  [[nodiscard]] OnDeny on_deny() const noexcept;
  [[nodiscard]] std::uint64_t wait_ns() const noexcept;
  [[nodiscard]] AccountMode account_mode() const noexcept;
  [[nodiscard]] ManagedPolicy managed() const noexcept;

 private:
  static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

  enum class Step { kCharge, kForce, kRefund };
  /// kNoTurn, kHasTurn: not made at the first attempt, which had to wait for its turn or has it.
  enum class Outcome { kMade, kNoTurn, kHasTurn, kOverLimit, kStuck };
  struct Changed {
    Outcome outcome;
    std::uint64_t used;
  };
  struct Amounts;
  struct Place;

  static Amounts amounts_after(Step step, std::uint64_t size, std::uint64_t used, std::uint64_t held,
                               std::uint64_t limit) noexcept;
  [[nodiscard]] Place own_place(std::uint32_t account) const noexcept;
  [[nodiscard]] Place common_place(std::uint32_t account) const noexcept;
  [[nodiscard]] std::uint64_t room(const Place& place) const noexcept;
  bool attempt(const Place& place, std::uint64_t& seen, Amounts after) noexcept;
  Changed first_attempt(const Place& place, Step step, std::uint64_t size) noexcept;
  Changed change_after(Outcome first, const Place& place, Step step, std::uint64_t size) noexcept;
  Changed change(const Place& place, Step step, std::uint64_t size) noexcept;
  Charged charge_after(Outcome first, std::uint32_t account, Bytes size, Kind kind, Bytes* raised_from) noexcept;
  Charged note_charge(std::uint32_t account, Bytes size, Kind kind, Bytes* raised_from, std::uint64_t used) noexcept;
  void refund_after(Outcome first, std::uint32_t account, Bytes size, Kind kind) noexcept;
  void confirm(std::uint32_t account, std::uint64_t usage) noexcept;
  [[nodiscard]] Word& part_of(std::uint32_t account, Kind kind) noexcept;
  [[nodiscard]] static std::uint64_t last_number(const SlotRecord& slot, std::uint32_t account) noexcept;
  Bytes refund_dead(std::uint32_t slot, std::uint32_t account, std::uint64_t state) noexcept;
  bool mark_dead(std::uint32_t slot, std::uint64_t state) noexcept;
  Bytes bury(std::uint32_t slot, std::uint64_t state) noexcept;
  void prepare(std::uint32_t slot, const ProcessIdentity& self) noexcept;
  [[nodiscard]] FileDescriptor reopen() const noexcept;
  [[nodiscard]] std::uint32_t slots_in_use() const noexcept;
  void forget_dead_waiters() noexcept;
  void wake_waiters() noexcept;

  bool lock_shared() noexcept;
  void unlock_shared() noexcept;
  void recover_shared() noexcept;
  void charge_common(std::uint32_t account, std::uint64_t granules) noexcept;
  void refund_common(std::uint32_t account, std::uint64_t granules) noexcept;
  [[nodiscard]] bool has_shares(std::uint32_t slot) const noexcept;
  SharedRecord* make_shared(std::uint64_t number, std::uint32_t account, Bytes size, Kind kind,
                            std::uint64_t part_of) noexcept;
  [[nodiscard]] SharedRecord* find_shared(std::uint64_t key) noexcept;
  void settle(SharedRecord& record, LabelSearch& labels) noexcept;
  [[nodiscard]] bool held_by_others(const SharedRecord& record, LabelSearch& labels) const noexcept;
  Bytes release_shares_of(std::uint32_t slot, LabelSearch& labels) noexcept;

  BookLayout* layout_ = nullptr;
  SlotRecord* own_ = nullptr;  // the slot of this process
  std::uint32_t slot_ = kNoSlot;
  std::uint32_t account_count_ = 0;
  Mapping mapping_;
  Mapping slot_lock_;  // see book_slots.cpp
  char path_[4096] = {};
  std::uint64_t inode_ = 0, device_ = 0;
};

/// One sentence for a person: what is wrong with the book.
[[nodiscard]] const char* describe(BookStatus status) noexcept;

}  // namespace ration::ledger
