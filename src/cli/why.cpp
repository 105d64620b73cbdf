// `ration why`: one denial, explained.
#include <fmt/format.h>

#include <charconv>

#include "cli/holders.hpp"
#include "cli/verbs.hpp"

namespace ration::cli {
namespace {

using ledger::DenialReason;

std::string because(const Session& session, const ledger::Denial& denial, const ledger::BookSnapshot& book) {
  switch (denial.reason) {
    case DenialReason::kLimit:
      return fmt::format("{} held {} of its limit {}, and {} more would not fit", book.name, session.size(denial.used),
                         session.size(denial.limit), session.size(denial.requested));
    case DenialReason::kDeviceFull:
      return "the GPU itself was full; the limit would have allowed it";
    case DenialReason::kNoAccount:
      return fmt::format("{} was not given that GPU", book.name);
    default:
      return "the book could not be used";
  }
}

std::string fix(const ledger::Denial& denial, const ledger::BookSnapshot& book, bool running) {
  if (denial.reason == DenialReason::kDeviceFull)
    return "ration ps   (who holds it), then wait for one to end: --on-deny wait";
  if (denial.reason == DenialReason::kNoAccount) return "ration run --gpu 0,1 …   gives it more than one GPU";
  const Bytes enough = round_up(denial.used + denial.requested, Bytes{std::uint64_t{256} << 20});
  return running ? fmt::format("ration set {} --limit {}MiB", book.name, enough.count() >> 20)
                 : fmt::format("ration run --limit {}MiB -- {}", enough.count() >> 20, book.command);
}

/// `d-17-3` as run and number.
bool parse_id(const std::string& id, std::uint64_t& run, std::uint64_t& number) {
  if (id.rfind("d-", 0) != 0) return false;
  const char* end = id.data() + id.size();
  const auto first = std::from_chars(id.data() + 2, end, run);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '-') return false;
  const auto second = std::from_chars(first.ptr + 1, end, number);
  return second.ec == std::errc{} && second.ptr == end;
}

}  // namespace

Result<int> why(const Session& session, const std::string& id) {
  std::uint64_t run = 0, number = 0;
  if (!parse_id(id, run, number)) {
    return fail("E1412", fmt::format("'{}' is not the number of a denial.", id),
                "They look like d-17-3: see ration ps, or the closing line of the run.", 2);
  }
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  for (const auto& stored : store->list()) {
    const auto& book = stored.contents;
    if (book.run_number != run) continue;
    for (const auto& denial : book.denials) {
      if (denial.sequence != number) continue;
      const bool told = denial.device_free != ledger::kUnknownBytes;
      if (session.format() == Format::kJson) {
        nlohmann::json data{{"denial", id},
                            {"time", utc(denial.time_ns)},
                            {"workload", book.name},
                            {"tenant", book.tenant},
                            {"pid", denial.pid},
                            {"requested_bytes", denial.requested.count()},
                            {"used_bytes", denial.used.count()},
                            {"limit_bytes", denial.limit.count()},
                            {"function", denial.function},
                            {"because", because(session, denial, book)},
                            {"fix", fix(denial, book, stored.live)}};
        if (told)
          data["device_free_bytes"] = denial.device_free;
        else
          data.update({{"device_free_bytes", nullptr}, {"device_free_bytes_na", "the driver did not say"}});
        session.print_json("why", data);
        return 0;
      }
      fmt::print("DENIED   {}  {}/{} (pid {})  {}  {}\n", utc(denial.time_ns), book.tenant, book.name, denial.pid,
                 session.size(denial.requested), denial.function);
      fmt::print("because  {}\n", because(session, denial, book));
      if (denial.reason == DenialReason::kLimit) {
        fmt::print("{}  the GPU was full: {}\n", told ? "not because" : "free   ",
                   told ? session.size(Bytes{denial.device_free}) + " were free"
                        : std::string("n/a (the driver did not say)"));
      }
      if (denial.waited_ns > 0) fmt::print("after    waiting {}\n", format_duration(denial.waited_ns));
      fmt::print("fix      {}\n", fix(denial, book, stored.live));
      return 0;
    }
    return fail("E1413",
                fmt::format("run {} ({}) has no denial {}: it was refused {} times, and the newest 256 are kept.", run,
                            book.name, id, book.denial_count),
                "ration ps", 3);
  }
  return fail("E1413", fmt::format("no run {} is on the books (the newest 32 that have ended are kept).", run),
              "ration ps", 3);
}

}  // namespace ration::cli
