#include "book/denials.hpp"

#include <unistd.h>

#include <cstring>

#include "base/clock.hpp"
#include "book/account.hpp"
#include "book/layout.hpp"

namespace ration::book {
namespace {

/// Claims the ring's entry for number `sequence`. Returns false if a newer number has the entry.
bool begin_entry(Word& place, std::uint64_t sequence) noexcept {
  std::uint64_t seen = place.load(std::memory_order_acquire);
  do {
    if ((seen & ~kBeingWritten) > sequence) return false;
  } while (!place.compare_exchange_weak(seen, kBeingWritten | sequence));
  return true;
}

void finish_entry(Word& place, std::uint64_t sequence) noexcept {
  std::uint64_t mine = kBeingWritten | sequence;
  place.compare_exchange_strong(mine, sequence);
}

}  // namespace

std::uint64_t Denials::record(std::uint32_t account, Bytes requested, DenialReason reason, const char* function,
                              std::uint64_t device_free, std::uint64_t waited_ns, const DeviceUuid& device,
                              const std::optional<Amount>& instead) const noexcept {
  if (book_->layout == nullptr) return 0;
  const std::uint64_t sequence = book_->layout->header.denial_count.fetch_add(1) + 1;
  AccountRecord* entry = account < book_->account_count ? &book_->layout->accounts[account] : nullptr;
  if (entry != nullptr) entry->denials.fetch_add(1, kRelaxed);
  if (account == kHostAccount) book_->layout->host.denials.fetch_add(1, kRelaxed);
  DenialRecord& record = book_->layout->denials[(sequence - 1) % kDenialRing];
  if (!begin_entry(record.sequence, sequence)) return sequence;
  record.time_ns = unix_time_ns();
  record.requested = requested.count();
  record.device_free = device_free;
  record.pid = ::getpid();
  record.account = static_cast<std::uint16_t>(account);
  record.reason = static_cast<std::uint16_t>(reason);
  record.waited_ns = waited_ns;
  const Account charged(*book_, account);
  const Amount own{charged.used() + charged.unrequested(), charged.limits().binding()};
  record.used = instead.value_or(own).used.count();
  record.limit = instead.value_or(own).limit.count();
  record.device_uuid = entry != nullptr ? entry->device_uuid : device;
  copy_text(record.function, function);
  finish_entry(record.sequence, sequence);
  return sequence;
}

std::uint64_t Denials::count() const noexcept { return book_->layout->header.denial_count.load(kRelaxed); }

void Denials::note_unlisted(const char* name) const noexcept {
  if (book_->layout == nullptr) return;
  BookHeader& header = book_->layout->header;
  for (const UnlistedRecord& known : header.unlisted) {
    if (std::strncmp(known.name, name, sizeof known.name - 1) == 0) return;
  }
  const std::uint64_t sequence = header.unlisted_count.fetch_add(1) + 1;
  UnlistedRecord& record = header.unlisted[(sequence - 1) % kUnlistedRing];
  if (!begin_entry(record.sequence, sequence)) return;
  copy_text(record.name, name);
  finish_entry(record.sequence, sequence);
}

void Denials::note_launcher(const char* name) const noexcept {
  char note[sizeof UnlistedRecord::name] = {};
  std::memcpy(note, kStarted, sizeof kStarted - 1);
  std::strncpy(note + sizeof kStarted - 1, name, sizeof note - sizeof kStarted);
  note_unlisted(note);
}

}  // namespace ration::book
