#include "book/line.hpp"

#include "base/clock.hpp"
#include "book/layout.hpp"

namespace ration::book {
namespace {

constexpr std::uint64_t kExpiryNs = 500'000'000;  // a place ends this long after its last renewal
constexpr std::uint64_t kFirstTurnNs = 100'000'000;
constexpr int kDoublings = 9;
constexpr std::uint64_t kArrivingNow = ~std::uint64_t{0};

// The calling thread's ticket in the line in which it waits. The thread precedes all later tickets.
thread_local std::uint64_t own_ticket = kArrivingNow;

bool is_renewed(const PlaceRecord& place, std::uint64_t now) noexcept {
  const std::uint64_t renewed = place.renewed_ns.load(kRelaxed);
  return (now > renewed ? now - renewed : renewed - now) < kExpiryNs;
}

/// Returns true if the line is closed to others when its first thread has waited for `age`.
bool is_closed(std::uint64_t age) noexcept {
  std::uint64_t turn = kFirstTurnNs;
  for (int doubled = 0; age >= 2 * turn; ++doubled) {
    if (doubled == kDoublings) return age % (2 * turn) < turn;
    age -= 2 * turn;
    turn *= 2;
  }
  return age < turn;
}

}  // namespace

bool Line::others_come_first() const noexcept {
  Word& line = newest_of(*book_->layout, account_);
  std::uint64_t newest = line.load(std::memory_order_seq_cst);
  if (newest == 0) return false;
  const std::uint64_t now = monotonic_time_ns();
  const PlaceRecord* first = nullptr;
  std::uint64_t first_ticket = 0;
  for (const PlaceRecord& place : book_->layout->line.places) {
    const std::uint64_t ticket = place.ticket.load(std::memory_order_seq_cst);
    if (ticket == 0 || place.account.load(kRelaxed) != account_ || !is_renewed(place, now)) continue;
    if (first != nullptr && ticket >= first_ticket) continue;
    first = &place;
    first_ticket = ticket;
  }
  // A thread that arrives meanwhile enters its place and then stores its ticket in `line`. Tickets are unique, so this
  // exchange then fails, and the new ticket stays.
  if (first == nullptr) line.compare_exchange_strong(newest, 0);
  return first != nullptr && first_ticket < own_ticket && is_closed(now - first->since_ns.load(kRelaxed));
}

PlaceInLine::PlaceInLine(const OpenBook& book, std::uint32_t account) noexcept
    : book_(&book),
      account_(account),
      ticket_(book.layout->line.tickets.fetch_add(1) + 1),
      since_ns_(monotonic_time_ns()),
      outer_ticket_(own_ticket) {
  own_ticket = ticket_;
}

PlaceInLine::~PlaceInLine() {
  own_ticket = outer_ticket_;
  for (PlaceRecord& place : book_->layout->line.places) {
    std::uint64_t mine = ticket_;
    if (place.ticket.compare_exchange_strong(mine, 0)) return;
  }
}

void PlaceInLine::renew() noexcept {
  const std::uint64_t now = monotonic_time_ns();
  PlaceRecord* own = nullptr;
  for (PlaceRecord& place : book_->layout->line.places) {
    if (place.ticket.load(kRelaxed) == ticket_) own = &place;
  }
  for (PlaceRecord& place : book_->layout->line.places) {
    if (own != nullptr) break;
    std::uint64_t former = place.ticket.load(kRelaxed);
    if ((former == 0 || !is_renewed(place, now)) && place.ticket.compare_exchange_strong(former, ticket_)) own = &place;
  }
  if (own == nullptr) return;
  own->account.store(account_, kRelaxed);
  own->since_ns.store(since_ns_, kRelaxed);
  own->renewed_ns.store(now, std::memory_order_seq_cst);
  newest_of(*book_->layout, account_).store(ticket_, std::memory_order_seq_cst);
}

PastTheLine::PastTheLine() noexcept : outer_ticket_(own_ticket) { own_ticket = 0; }
PastTheLine::~PastTheLine() { own_ticket = outer_ticket_; }

}  // namespace ration::book
