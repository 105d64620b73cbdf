// `ration set`: change the limit of something running.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/units.hpp"
#include "cli/verbs.hpp"
#include "ledger/store.hpp"

namespace ration::cli {

Result<int> set(const std::string& name, const std::string& limit, bool yes) {
  const auto store = ledger::Store::open();
  if (!store) return tl::unexpected(store.error());
  for (const auto& stored : store->list()) {
    if (!stored.live || stored.contents.name != name) continue;
    const auto& account = stored.contents.accounts.front();
    const Result<Bytes> asked = parse_size(limit, account.device_total);
    if (!asked) return tl::unexpected(asked.error());
    const Bytes wanted = round_down(std::min(*asked, account.device_total), kGranule);
    if (wanted == Bytes{0}) return fail("E1105", "a limit of nothing would refuse everything.", "Give at least 512MiB.", 2);
    if (wanted < account.used && !yes) {
      fmt::print(stderr, "{} uses {}, {} more than the new limit. New allocations will be refused until it is under {}.\n", name,
                 format_size(account.used), format_size(account.used - wanted), format_size(wanted));
      if (::isatty(STDIN_FILENO) == 0) return fail("E1205", "shrinking was not confirmed.", fmt::format("ration set {} --limit {} --yes", name, limit), 4);
      fmt::print(stderr, "Proceed? [y/N] ");
      if (const int answer = std::getchar(); answer != 'y' && answer != 'Y') return 4;
    }
    ledger::Book book;
    if (const auto status = ledger::Book::open(stored.path.c_str(), book); status != ledger::BookStatus::kOk) {
      return fail("E1411", fmt::format("the book of {} cannot be changed: {}.", name, ledger::describe(status)), "ration ps");
    }
    book.set_limit(0, wanted);
    fmt::print("{}: limit {} → {} on {} (now).\n", name, format_size(account.limit), format_size(wanted), account.device_name);
    return 0;
  }
  return fail("E1801", fmt::format("no running workload is named '{}'.", name), "ration ps", 3);
}

}  // namespace ration::cli
