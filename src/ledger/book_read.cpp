// Reading a book that somebody else may be writing, or may have filled with anything at all.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "ledger/book.hpp"
#include "ledger/layout.hpp"

namespace ration::ledger {
namespace {

// Text out of a hostile file: ends inside its field, holds nothing that moves a terminal's cursor.
template <std::size_t N>
std::string text(const char (&field)[N]) {
  std::string copy(field, ::strnlen(field, N));
  std::replace_if(
      copy.begin(), copy.end(), [](char letter) { return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f; },
      '?');
  return copy;
}

std::uint64_t plain(const Word& word) noexcept { return word.load(std::memory_order_relaxed); }
Bytes bytes(const Word& word) noexcept { return Bytes{plain(word)}; }

ProcessSnapshot process_from(const SlotRecord& slot, std::uint32_t accounts) {
  ProcessSnapshot process;
  process.identity.pid = slot.pid;
  process.identity.user = slot.user;
  process.identity.start_time = slot.start_time;
  process.identity.pid_namespace = slot.pid_namespace;
  process.command = text(slot.command);
  process.attached_ns = plain(slot.attached_ns);
  for (std::uint32_t account = 0; account < accounts; ++account) {
    const Bytes held = bytes(slot.held[account]), spare{spare_bytes(plain(slot.spare[account]))};
    process.held.push_back(held - std::min(held, spare));
    process.context.push_back(bytes(slot.context[account]));
    process.pooled.push_back(bytes(slot.pooled[account]));
  }
  return process;
}

Denial denial_from(const DenialRecord& record) {
  Denial denial;
  denial.sequence = plain(record.sequence);
  denial.time_ns = record.time_ns;
  denial.requested = Bytes{record.requested};
  denial.used = Bytes{record.used};
  denial.limit = Bytes{record.limit};
  denial.device_free = record.device_free;
  denial.pid = record.pid;
  denial.account = record.account;
  denial.reason = static_cast<DenialReason>(record.reason);
  denial.function = text(record.function);
  denial.waited_ns = record.waited_ns;
  return denial;
}

bool read_whole(int descriptor, void* target, std::size_t size) noexcept {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(descriptor, static_cast<char*>(target) + done, size - done, static_cast<off_t>(done));
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

BookStatus Book::read(const char* path, BookSnapshot& out) {
  const FileDescriptor file{::open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (!file)
    return errno == ENOENT ? BookStatus::kMissing : errno == EACCES ? BookStatus::kNotPermitted : BookStatus::kForeign;
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return BookStatus::kForeign;

  const auto storage = std::make_unique<std::byte[]>(sizeof(BookLayout) + alignof(BookLayout));
  void* start = storage.get();
  std::size_t space = sizeof(BookLayout) + alignof(BookLayout);
  const auto* layout =
      static_cast<const BookLayout*>(std::align(alignof(BookLayout), sizeof(BookLayout), start, space));
  std::uint64_t magic = 0;
  if (!read_whole(file.get(), &magic, sizeof magic)) return BookStatus::kTruncated;
  if (magic != kBookMagic) return BookStatus::kForeign;
  if (!read_whole(file.get(), start, sizeof(BookLayout))) return BookStatus::kTruncated;

  const BookHeader& header = layout->header;
  if (header.version != kBookVersion) return BookStatus::kOtherVersion;
  if (header.header_size != sizeof(BookHeader) || header.file_size != sizeof(BookLayout) ||
      header.account_count > kMaxAccounts || header.on_deny > 1 || header.account_mode > 1) {
    return BookStatus::kDamaged;
  }
  BookSnapshot snapshot;
  snapshot.name = text(header.name);
  snapshot.tenant = text(header.tenant);
  snapshot.slice = text(header.slice);
  snapshot.labels = text(header.labels);
  snapshot.command = text(header.command);
  snapshot.run_number = header.run_number;
  snapshot.created_ns = header.created_ns;
  snapshot.ended_ns = plain(header.ended_ns);
  snapshot.exit_status = header.exit_status.load(std::memory_order_relaxed);
  snapshot.limit_changes = plain(header.limit_changes);
  snapshot.denial_count = plain(header.denial_count);
  snapshot.waiting = header.waiters.load(std::memory_order_relaxed);
  snapshot.creator.pid = header.creator_pid;
  snapshot.creator.user = header.creator_user;
  snapshot.creator.start_time = header.creator_start_time;
  snapshot.creator.pid_namespace = header.creator_pid_namespace;
  snapshot.on_deny = static_cast<OnDeny>(header.on_deny);
  snapshot.account_mode = static_cast<AccountMode>(header.account_mode);
  for (std::uint32_t account = 0; account < header.account_count; ++account) {
    const AccountRecord& record = layout->accounts[account];
    snapshot.accounts.push_back({record.device_uuid, text(record.device_name), bytes(record.device_total),
                                 bytes(record.limit), bytes(record.guarantee), bytes(record.used), bytes(record.peak),
                                 plain(record.denials)});
  }
  for (const SlotRecord& slot : layout->slots) {
    if (slot.in_use.load(std::memory_order_relaxed) != 0)
      snapshot.processes.push_back(process_from(slot, header.account_count));
  }
  for (std::size_t account = 0; account < snapshot.accounts.size(); ++account) {
    for (const SlotRecord& slot : layout->slots) {
      const Bytes spare{slot.in_use.load(std::memory_order_relaxed) != 0 ? spare_bytes(plain(slot.spare[account])) : 0};
      snapshot.accounts[account].used -= std::min(snapshot.accounts[account].used, spare);
    }
  }
  for (const DenialRecord& record : layout->denials) {
    if (plain(record.sequence) != 0 && record.account <= kMaxAccounts) snapshot.denials.push_back(denial_from(record));
  }
  std::sort(snapshot.denials.begin(), snapshot.denials.end(),
            [](const Denial& left, const Denial& right) { return left.sequence < right.sequence; });
  out = std::move(snapshot);
  return BookStatus::kOk;
}

}  // namespace ration::ledger
