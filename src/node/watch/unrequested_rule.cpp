// Charges memory that the driver holds for a workload beyond its book: loaded code, local memory of kernels, contexts
// that the guard did not see. No request shows this memory, so the rule finds it by comparison; from then on it counts
// against the limit.
#include <algorithm>
#include <map>
#include <memory>

#include "book/book_reader.hpp"
#include "book/store_limits.hpp"
#include "node/limits/settled.hpp"
#include "node/watch/watch_rules.hpp"

namespace ration::node {

namespace {

/// Returns the bytes that the driver holds for all processes of the account, plus their managed memory, which the
/// driver's figures leave out. Returns nothing if book and driver cannot be compared: if the driver does not report a
/// process, or if the account has no running process or leaves contexts out.
std::optional<Bytes> seen_by_driver(const AccountView& account) {
  if (account.suspended || account.ended || !account.contexts_counted || account.processes.empty()) return std::nullopt;
  Bytes seen;
  for (const ProcessView& process : account.processes) {
    if (!process.driver_used) return std::nullopt;
    seen += *process.driver_used + process.managed;
  }
  return seen;
}

class UnrequestedRule final : public Rule {
 public:
  explicit UnrequestedRule(const Limits& limits) : limits_(limits) {}
  void run(const Moment& moment, Effects& effects) override;

 private:
  struct Unrequested {
    Settled settled;
    std::uint64_t times_emptied = 0;  // value of the book's counter when the memory was found
  };
  const Limits& limits_;
  std::map<std::pair<std::string, std::uint32_t>, Unrequested> unrequested_;  // by path and account
};

// Compares the driver's figure with two readings of the book, one from before the driver was asked and one from now, so
// that one of them includes a lasting change in between. Neither includes memory that came and went in between, so
// several ticks must agree.
void UnrequestedRule::run(const Moment& moment, Effects& /*effects*/) {
  decltype(unrequested_) present;
  for (const AccountView& view : moment.snapshot.accounts) {
    const auto workload = moment.registry.workloads().find(view.path);
    if (workload == moment.registry.workloads().end() || limits_.find(view.path) == nullptr) continue;
    const book::AccountSnapshot& book = workload->second.book.accounts[view.account];
    const std::pair key{view.path, view.account};
    const auto known = unrequested_.find(key);
    Unrequested& found = present[key];
    if (known != unrequested_.end() && known->second.times_emptied == book.times_emptied) {
      found = known->second;
    } else {  // the entry is new, or its processes have ended
      found.times_emptied = book.times_emptied;
      found.settled.note(book.unrequested);
    }
    const auto seen = seen_by_driver(view);
    if (!seen) continue;
    const Bytes charged = std::max(view.used - std::min(view.used, view.unrequested),
                                   book::used_now(workload->second.descriptor, view.account).value_or(*seen));
    const Bytes now = found.settled.note(round_down(*seen - std::min(*seen, charged), kGranule));
    if (now == book.unrequested && (now == Bytes{0} || book.used + now <= book.peak)) continue;
    // Ignores a failure: the write of a limit into the same book fails too, and is reported.
    (void)book::store_unrequested(workload->second.descriptor, workload->second.owner, view.account, book, now);
  }
  unrequested_ = std::move(present);
}

}  // namespace

std::unique_ptr<Rule> unrequested_rule(const Limits& limits) { return std::make_unique<UnrequestedRule>(limits); }

}  // namespace ration::node
