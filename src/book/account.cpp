#include "book/account.hpp"

#include <algorithm>

#include "book/charges.hpp"
#include "book/layout.hpp"
#include "book/processes.hpp"
#include "book/shared_memory.hpp"
#include "book/waiting.hpp"

namespace ration::book {

Bytes Account::used() const noexcept {
  if (!exists()) return {};
  refund_ended(*book_, index_);
  SharedMemory(*book_).settle();
  return Bytes{used_bytes(usage_of(*book_->layout, index_).load(kRelaxed))};
}

Bytes Account::peak() const noexcept {
  return exists() ? Bytes{peak_of(*book_->layout, index_).load(kRelaxed)} : Bytes{0};
}

Bytes Account::unrequested() const noexcept {
  return is_device() ? Bytes{unrequested_bytes(book_->layout->header.unrequested[index_].load(kRelaxed))} : Bytes{0};
}

Bytes Account::held_by_this_process() const noexcept {
  return exists() && book_->own != nullptr ? Bytes{holdings_of(*book_->own, index_).held.load(kRelaxed)} : Bytes{0};
}

Bytes Account::headroom() const noexcept {
  const Bytes most = limits().binding();
  const Bytes now = used() + unrequested();
  return now < most ? most - now : Bytes{0};
}

Bytes Account::visible_size(Bytes device_total) const noexcept {
  return std::min({granted(), limits().own, device_total});
}

Account::Visible Account::visible(Bytes device_total, Bytes device_free) const noexcept {
  if (!is_device()) return {};
  const Bytes total = visible_size(device_total);
  const Bytes given = limits().given, reach{book_->layout->grants.reach[index_].load(kRelaxed)};
  const Bytes most = std::min(reach > given && has_daemon(*book_) ? reach : given, total);
  const Bytes used = std::min(this->used() + unrequested(), total);
  return {total, std::min(most - std::min(most, used), device_free), used};
}

Bytes Account::granted() const noexcept {
  if (!is_device()) return limits().given;
  return std::max(limits().given, Bytes{book_->layout->grants.granted[index_].load(kRelaxed)});
}

Account::Limits Account::limits() const noexcept {
  if (!exists()) return {};
  const BookLayout& layout = *book_->layout;
  if (!is_device()) return {Bytes{layout.host.limit.load(kRelaxed)}, Bytes{layout.host.own_limit.load(kRelaxed)}};
  return {Bytes{layout.accounts[index_].limit.load(kRelaxed)}, Bytes{layout.header.own_limit[index_].load(kRelaxed)}};
}

Bytes Account::ceiling() const noexcept {
  const Limits now = limits();
  if (!is_device()) return now.binding();
  return std::min(std::max(now.given, Bytes{book_->layout->header.ceiling[index_].load(kRelaxed)}), now.own);
}

void Account::set_limit(Bytes limit) const noexcept {
  if (!exists()) return;
  if (is_device()) {
    book_->layout->grants.granted[index_].store(limit.count(), kRelaxed);
    book_->layout->grants.reach[index_].store(0, kRelaxed);
  }
  Word& stored = is_device() ? book_->layout->accounts[index_].limit : book_->layout->host.limit;
  stored.store(limit.count(), std::memory_order_seq_cst);
  book_->layout->header.limit_changes.fetch_add(1, kRelaxed);
  Waiting(*book_).wake();
}

void Account::set_own_limit(Bytes limit) const noexcept {
  if (!exists()) return;
  Word& stored = is_device() ? book_->layout->header.own_limit[index_] : book_->layout->host.own_limit;
  stored.store(limit.count(), std::memory_order_seq_cst);
  Waiting(*book_).wake();
}

Account::Device Account::device() const noexcept {
  if (!is_device()) return {};
  const AccountRecord& record = book_->layout->accounts[index_];
  return {record.device_uuid, Bytes{record.device_total.load(kRelaxed)}, Bytes{record.context_estimate.load(kRelaxed)}};
}

}  // namespace ration::book
