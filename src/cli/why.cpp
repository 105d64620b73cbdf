// `ration why`: one denial, explained.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdio>
#include <ctime>

#include "base/units.hpp"
#include "cli/verbs.hpp"
#include "ledger/store.hpp"

namespace ration::cli {
namespace {

std::string because(const ledger::Denial& denial, const ledger::BookSnapshot& book) {
  switch (denial.reason) {
    case ledger::DenialReason::kLimit:
      return fmt::format("{} held {} of its limit {}", book.name, format_size(denial.used), format_size(denial.limit));
    case ledger::DenialReason::kDeviceFull: return "the GPU itself was full";
    case ledger::DenialReason::kNoAccount: return fmt::format("{} was not given that GPU", book.name);
    default: return "the book could not be used";
  }
}

}  // namespace

Result<int> why(const std::string& id) {
  unsigned long run = 0, number = 0;
  if (std::sscanf(id.c_str(), "d-%lu-%lu", &run, &number) != 2) {
    return fail("E1412", fmt::format("'{}' is not the number of a denial.", id), "They look like d-17-3: see the closing line of the run.", 2);
  }
  const auto store = ledger::Store::open();
  if (!store) return tl::unexpected(store.error());
  for (const auto& stored : store->list()) {
    if (stored.contents.run_number != run) continue;
    for (const auto& denial : stored.contents.denials) {
      if (denial.sequence != number) continue;
      const auto seconds = static_cast<std::time_t>(denial.time_ns / 1'000'000'000U);
      fmt::print("DENIED  {:%Y-%m-%d %H:%M:%S}Z  {} (pid {})  {}  {}\n", fmt::gmtime(seconds), stored.contents.name, denial.pid,
                 format_size(denial.requested), denial.function);
      fmt::print("because {}\n", because(denial, stored.contents));
      if (denial.device_free == ledger::kUnknownBytes) fmt::print("free    n/a (the driver did not say)\n");
      else fmt::print("free    {} on the GPU itself\n", format_size(Bytes{denial.device_free}));
      const Bytes enough = round_up(denial.used + denial.requested, Bytes{std::uint64_t{256} << 20});
      fmt::print("fix     ration set {} --limit {}MiB\n", stored.contents.name, enough.count() >> 20);
      return 0;
    }
  }
  return fail("E1413", fmt::format("no denial {} is on the books (the newest 256 of a run, and the newest 32 runs, are kept).", id), "ration ps", 3);
}

}  // namespace ration::cli
