// The book as it lies in memory and on disk: one fixed-layout, versioned file per workload. Used by the book and by
// code that reads it in place; everything else goes through book.hpp. Each field names its writer. Promise: the layout
// changes only together with kBookVersion.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bytes.hpp"
#include "book/book_status.hpp"
#include "book/terms.hpp"

namespace ration::book {

inline constexpr std::uint64_t kBookMagic = 0x6b6f6f426e6f6974;  // "tionBook"
inline constexpr std::uint32_t kBookVersion = 10;

inline constexpr std::size_t kMaxAccounts = 16;     // the most devices of a machine, twice those of an 8-GPU server
inline constexpr std::size_t kMaxProcesses = 1024;  // the most processes of a workload that use a GPU at once
inline constexpr std::size_t kCommonSlot =
    kMaxProcesses - 1;                           // the slot of memory that is charged to no single process
inline constexpr std::size_t kDenialRing = 256;  // the newest denials; older ones are overwritten
inline constexpr std::size_t kMaxShared = 2048;  // the most pieces of shared memory
inline constexpr std::size_t kMaxPlaces = 48;    // the most places of threads in the lines of all accounts together
inline constexpr std::size_t kMaxNames = 4096;   // the most names of shared memory
inline constexpr std::size_t kMaxControlPath = 512;
inline constexpr std::size_t kUnlistedRing = 8;  // the newest unlisted functions; older ones are overwritten

using Word = std::atomic<std::uint64_t>;
inline constexpr auto kRelaxed = std::memory_order_relaxed;
static_assert(Word::is_always_lock_free);

/// The use of an account in one word that changes only by compare-and-exchange. The word contains the bytes in use and
/// identifies the change that wrote the word, by the slot and the low bits of the number of that change. The number
/// tells the word from an earlier word with the same bytes, and shows whether a process that died in the middle of a
/// change had made the change.
inline constexpr int kByteBits = 43;  // 8 TiB, more than any device has
inline constexpr int kNumberBits = 11;
inline constexpr std::uint64_t kMaxUsed = (std::uint64_t{1} << kByteBits) - 1;
inline constexpr std::uint64_t kNumberMask = (std::uint64_t{1} << kNumberBits) - 1;
static_assert(kMaxProcesses == std::size_t{1} << (64 - kByteBits - kNumberBits));

constexpr std::uint64_t usage_word(std::uint64_t bytes, std::uint64_t slot, std::uint64_t number) noexcept {
  return bytes | (number & kNumberMask) << kByteBits | slot << (kByteBits + kNumberBits);
}
constexpr std::uint64_t used_bytes(std::uint64_t usage) noexcept { return usage & kMaxUsed; }
constexpr std::uint32_t last_slot(std::uint64_t usage) noexcept {
  return static_cast<std::uint32_t>(usage >> (kByteBits + kNumberBits));
}
/// Returns true if the slot's change of that number made `usage`. The numbers of one slot and account that can stand in
/// a word at the same time differ by less than kNumberMask.
constexpr bool made_by(std::uint64_t usage, std::uint32_t slot, std::uint64_t number) noexcept {
  return last_slot(usage) == slot && ((usage >> kByteBits) & kNumberMask) == (number & kNumberMask);
}

/// One device of the workload. A process that may change limits writes `limit` and `guarantee` at any time. The
/// processes of the workload write `usage` by compare-and-exchange, and `peak` and `denials` afterwards.
struct AccountRecord {
  std::array<std::uint8_t, 16> device_uuid;  // creator
  char device_name[56];                      // creator
  Word context_estimate;                     // creator: the cost of one CUDA context here; 0 if not measured
  Word device_total;                         // creator
  Word limit;
  Word guarantee;
  Word usage;    // see usage_word(); its bytes are the sum over all slots
  Word peak;     // the most bytes ever in use
  Word denials;  // denied charges
};
static_assert(sizeof(AccountRecord) == 128);

/// The life of a slot: free, then used by a process that holds the slot's lock in the file, then dead until its
/// holdings have been refunded. The generation in the high bits counts its lives.
enum class SlotLife : std::uint64_t { kFree = 0, kUsed = 1, kDead = 2 };
constexpr SlotLife life_of(std::uint64_t state) noexcept { return static_cast<SlotLife>(state & 3); }
constexpr std::uint64_t state_word(std::uint64_t generation, SlotLife life) noexcept {
  return generation << 2 | static_cast<std::uint64_t>(life);
}
constexpr std::uint64_t generation_of(std::uint64_t state) noexcept { return state >> 2; }

/// The bits of an unrequested_word() that count how often the workload was left without a process.
inline constexpr std::uint64_t kTimesEmptied = kGranule.count() - 1;
/// Packs the bytes that the driver holds beyond all charges, in whole granules, with that count. The count keeps the
/// daemon from storing a finding about processes that have ended since.
constexpr std::uint64_t unrequested_word(std::uint64_t bytes, std::uint64_t times_emptied) noexcept {
  return (bytes & ~kTimesEmptied) | (times_emptied & kTimesEmptied);
}
constexpr std::uint64_t unrequested_bytes(std::uint64_t word) noexcept { return word & ~kTimesEmptied; }
constexpr std::uint64_t times_emptied(std::uint64_t word) noexcept { return word & kTimesEmptied; }

/// The values of a slot's `change`: none, one that a thread of the process prepares, or an announced one with its
/// number and account.
inline constexpr std::uint64_t kNoChange = 0;
inline constexpr std::uint64_t kPreparing = 1;
constexpr std::uint64_t announced(std::uint64_t number, std::uint32_t account) noexcept {
  return number << 8 | std::uint64_t{account} << 1 | 1;
}
constexpr std::uint64_t change_number(std::uint64_t change) noexcept { return change >> 8; }
constexpr bool is_announced(std::uint64_t change, std::uint32_t account) noexcept {
  return change_number(change) != 0 && ((change >> 1) & 0x7f) == account;
}

/// The holdings of one process on one account, and the progress of its changes there.
struct Holdings {
  Word held;       // the charged bytes of all kinds
  Word changes;    // number of its newest change that was made; rises even if the slot gets another process
  Word confirmed;  // number of its newest change that another process confirmed before it replaced the usage word
};

/// The holdings of one process on one device.
struct Part {
  Holdings all;
  Word context;  // the held bytes of CUDA contexts
  Word pooled;   // the held bytes that the driver's memory pools reserve
  Word managed;  // the held bytes of managed memory
};

/// One process of the workload, which writes the record. Any process may write the `confirmed` words, and a process
/// that finds this one dead writes `state`.
struct alignas(64) SlotRecord {  // no two processes share a cache line
  Word state;                    // state_word()
  std::int32_t pid;
  std::uint32_t user;
  std::uint64_t start_time;
  std::uint64_t pid_namespace;
  Word attached_ns;                      // CLOCK_REALTIME when it first used the driver
  std::atomic<std::uint32_t> waiting;    // number of its threads that sleep until bytes come back
  std::atomic<std::uint32_t> unmovable;  // flags of Unmovable for memory that it has or had
  Word change;                           // kNoChange, kPreparing or announced()
  Word change_held;                      // its holdings of that account once the announced change is made
  Part parts[kMaxAccounts];
  char command[88];  // the first words of its command line
  Holdings host;     // the holdings of pinned host memory; in former padding, see HostRecord
};
static_assert(sizeof(SlotRecord) == 960);

/// Returns the slot's holdings of an account, a device's or the host's.
inline Holdings& holdings_of(SlotRecord& slot, std::uint32_t account) noexcept {
  return account == kHostAccount ? slot.host : slot.parts[account].all;
}
inline const Holdings& holdings_of(const SlotRecord& slot, std::uint32_t account) noexcept {
  return account == kHostAccount ? slot.host : slot.parts[account].all;
}

/// Returns true if the change that a slot announces for that account stands in the account's usage word, or is
/// confirmed.
inline bool is_made(const SlotRecord& slot, std::uint32_t index, std::uint32_t account, std::uint64_t usage) noexcept {
  const std::uint64_t change = slot.change.load(std::memory_order_acquire), number = change_number(change);
  return is_announced(change, account) &&
         (made_by(usage, index, number) ||
          holdings_of(slot, account).confirmed.load(std::memory_order_acquire) >= number);
}

/// Returns what a slot holds of an account whose usage word is `usage`, including a change that was made but is not
/// entered in the slot yet.
inline std::uint64_t held_in(const SlotRecord& slot, std::uint32_t index, std::uint32_t account,
                             std::uint64_t usage) noexcept {
  const Word& held = is_made(slot, index, account, usage) ? slot.change_held : holdings_of(slot, account).held;
  return held.load(std::memory_order_acquire);
}

/// A denied charge. `sequence` is written last, so that a reader recognises an unfinished entry.
struct DenialRecord {
  Word sequence;  // the number, from 1; 0 if never written; has the bit kBeingWritten while the entry is written
  std::uint64_t time_ns;
  std::uint64_t requested;
  std::uint64_t used;
  std::uint64_t limit;
  std::uint64_t device_free;  // kUnknownBytes if the driver did not say
  std::int32_t pid;
  std::uint16_t account;
  std::uint16_t reason;  // DenialReason
  char function[40];     // the driver's name of the call
  std::uint64_t waited_ns;
  std::array<std::uint8_t, 16> device_uuid;  // the device of the request; all zeros if unknown
};
inline constexpr std::uint64_t kBeingWritten = std::uint64_t{1} << 63;
static_assert(sizeof(DenialRecord) == 120);

/// Memory that several processes of the workload may hold, charged once. Its maker creates the record without the lock
/// of the shared part; everything else is written under that lock, except `holders` (each process may clear its own
/// bit) and `waived`. Bytes are counted in granules.
struct alignas(64) SharedRecord {
  std::atomic<std::uint32_t>
      maker;  // slot + 1 of the process that is charged for the lent bytes; kNoProcess if it has ended; 0 if unused
  std::uint32_t account;
  std::uint32_t kind;  // Kind of the lent bytes
  std::uint32_t unused;
  Word number;   // written last; 0 while the record is made
  Word part_of;  // the number of the memory that lives while this piece is held; 0 if not a piece
  Word bytes;    // low half: lent bytes, charged to the maker; high half: kept bytes, charged to the common slot
  Word waived;   // the part of the lent bytes that the maker has given up and that is not settled yet
  Word control_device, control_inode;  // the file of its exported descriptors; 0 if none, kUnknownFile if unknown
  Word holders[kMaxProcesses / 64];    // a bit for the slot of each process that joined, and of the maker of a piece
};
static_assert(sizeof(SharedRecord) == 192);
inline constexpr std::uint32_t kNoProcess = ~std::uint32_t{0};
inline constexpr std::uint64_t kUnknownFile = ~std::uint64_t{0};
constexpr std::uint64_t lent_granules(std::uint64_t word) noexcept { return word & 0xffffffffU; }
constexpr std::uint64_t kept_granules(std::uint64_t word) noexcept { return word >> 32; }

/// Another name of shared memory, made from an IPC handle, an exported pointer, or the label of another workload's
/// descriptor.
struct NameRecord {
  Word key;     // written last; 0 if unused
  Word number;  // the number of the SharedRecord
};

/// All data about memory that several processes may hold (shared_memory.cpp).
struct SharedPart {
  pthread_mutex_t lock;                          // robust, process-shared, error-checking; waited for at most 5 ms
  std::atomic<std::uint32_t> bound, name_bound;  // one past the highest entry ever used
  std::atomic<std::uint32_t> control_state;      // 0: no control_path; 1: the path is being written; 2: it is written
  char control_path[kMaxControlPath];            // path of the file whose descriptors are exported
  alignas(4096) NameRecord names[kMaxNames];
  alignas(4096) SharedRecord records[kMaxShared];
};

/// An unlisted function that a process of the workload called.
struct UnlistedRecord {
  Word sequence;  // as in a DenialRecord
  char name[56];
};
static_assert(sizeof(UnlistedRecord) == 64);

/// The beginning of a book in every version, so that each version can identify another's book and its creator.
struct BookStart {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_size;
  std::uint64_t file_size;
  std::uint64_t run_number;
  std::uint64_t created_ns;
  std::int32_t creator_pid;
  std::uint32_t creator_user;
  std::uint64_t creator_start_time;
  std::uint64_t creator_pid_namespace;
};
static_assert(sizeof(BookStart) == 64 && offsetof(BookStart, version) == 8 && offsetof(BookStart, creator_pid) == 40);

struct BookHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_size;
  std::uint64_t file_size;
  std::uint64_t run_number;  // creator; unique within the runtime directory
  std::uint64_t created_ns;  // creator, CLOCK_REALTIME
  std::int32_t creator_pid;
  std::uint32_t creator_user;
  std::uint64_t creator_start_time;
  std::uint64_t creator_pid_namespace;
  Word ended_ns;  // `ration run`, after the program has ended; 0 while it runs
  std::atomic<std::int32_t> exit_status;
  std::uint32_t account_count;            // creator
  std::uint32_t on_deny;                  // creator: OnDeny
  std::uint32_t account_mode;             // creator: AccountMode
  std::uint32_t managed;                  // creator: ManagedPolicy
  std::uint64_t wait_ns;                  // creator: the longest wait of OnDeny::kWait; UINT64_MAX if endless
  char name[64];                          // creator
  char tenant[64];                        // creator
  char slice[64];                         // creator
  char labels[256];                       // creator: k=v separated by commas
  char command[256];                      // creator
  char simulation[256];                   // creator: the simulated node; empty on the machine's own devices
  Word limit_changes;                     // processes that change limits
  Word denial_count;                      // charging processes
  std::atomic<std::uint32_t> generation;  // a futex word that changes when bytes come back or a limit is raised
  std::atomic<std::uint32_t> waiters;     // sum of `waiting` over all slots, or more after a death
  std::atomic<std::uint32_t> slot_bound;  // one past the highest slot ever used
  Word trim_requests;                     // the daemon: the number of its requests to give back unused memory
  Word ceiling[kMaxAccounts];  // the daemon: the value up to which it may raise the limit on request; 0 if it may not
  Word unrequested[kMaxAccounts];          // the daemon: see unrequested_word()
  Word own_limit[kMaxAccounts];            // a program of the workload: an upper bound, whatever `limit` says
  Word wanted[kMaxAccounts];               // the largest charge that waits; 0 if none
  Word granted_waits;                      // charging processes: requests that slept and then got their memory
  Word unlisted_count;                     // the workload's processes: names in `unlisted` so far, each counted once
  UnlistedRecord unlisted[kUnlistedRing];  // the workload's processes; older ones are overwritten
};

/// A place in the line of an account, for a thread that sleeps until bytes come back. That thread writes the record;
/// another thread may take the place once its holder no longer renews it. `ticket` is written first, so the other
/// fields may be a former holder's for an instant.
struct PlaceRecord {
  Word ticket;  // 0 if the place is free
  Word account;
  Word since_ns;    // CLOCK_MONOTONIC, when the thread began to wait
  Word renewed_ns;  // the same clock, when the thread was last awake
};

/// The lines of waiting threads (line.cpp). The record lies in former padding of this version, so it stays empty in
/// books of programs that do not know it.
struct LinePart {
  Word newest[kMaxAccounts];  // the ticket of the newest place in the account's line; 0 if no thread waits
  Word tickets;               // number of tickets given out so far
  PlaceRecord places[kMaxPlaces];
};

/// Limits besides the one in force, from which programs learn the size of their devices. Older books of this version
/// have zeros here; zeros mean that there is no limit besides the one in force.
struct GrantRecord {
  Word granted[kMaxAccounts];  // creator, then the daemon: the limit that was granted; 0 if it is the one in force
  Word reach[kMaxAccounts];    // the daemon: the value up to which it raises the limit at once; 0 if it does not
};

/// Pinned host memory of the workload, the account kHostAccount. Its writers are those of an AccountRecord. The record
/// lies where older books of this version have zeros. Such a book does not count host memory, because a process that
/// does not know the record would not refund a dead process's host memory.
struct HostRecord {
  Word counted;    // creator: 1 if host memory is counted
  Word limit;      // kUnlimited if none
  Word own_limit;  // as in BookHeader
  Word usage;
  Word peak;
  Word denials;
  Word newest;  // as in LinePart
};

/// The byte of the book's file that a daemon keeps locked while it divides the limits: the first byte after the slots'
/// bytes.
inline constexpr std::uint32_t kDaemonByte = kMaxProcesses;

struct BookLayout {
  BookHeader header;
  alignas(64) LinePart line;
  alignas(4096) AccountRecord accounts[kMaxAccounts];
  GrantRecord grants;
  HostRecord host;
  alignas(4096) DenialRecord denials[kDenialRing];
  alignas(4096) SlotRecord slots[kMaxProcesses];
  alignas(4096) SharedPart shared;
};

/// Copies text into a field of the book. Cuts off the end of a text that is too long.
template <std::size_t N>
void copy_text(char (&target)[N], const char* source) noexcept {
  const std::size_t length = ::strnlen(source, N - 1);
  std::memcpy(target, source, length);
  target[length] = '\0';
}

inline Word& usage_of(BookLayout& book, std::uint32_t account) noexcept {
  return account == kHostAccount ? book.host.usage : book.accounts[account].usage;
}
inline Word& peak_of(BookLayout& book, std::uint32_t account) noexcept {
  return account == kHostAccount ? book.host.peak : book.accounts[account].peak;
}
inline Word& newest_of(BookLayout& book, std::uint32_t account) noexcept {
  return account == kHostAccount ? book.host.newest : book.line.newest[account];
}

/// Returns the number of slots, counted from the first, that processes may have. The number never exceeds the size of
/// the table, even if the book contains arbitrary bytes.
inline std::uint32_t slots_in_use(const BookLayout& book) noexcept {
  return std::min<std::uint32_t>(book.header.slot_bound.load(kRelaxed), kCommonSlot);
}

/// Checks that a header is of this version and within its bounds. Must be called before any field is used.
[[nodiscard]] BookStatus check(const BookHeader& header) noexcept;

static_assert(offsetof(BookHeader, version) == offsetof(BookStart, version) &&
              offsetof(BookHeader, creator_pid) == offsetof(BookStart, creator_pid) &&
              offsetof(BookHeader, creator_pid_namespace) == offsetof(BookStart, creator_pid_namespace));
static_assert(sizeof(BookLayout) % 4096 == 0 && offsetof(BookLayout, accounts) == 4096);

}  // namespace ration::book
