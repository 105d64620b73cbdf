// `ration why`: one denial, explained.
#include <fmt/format.h>

#include "cli/holders.hpp"
#include "cli/verbs.hpp"
#include "policy/denials.hpp"

namespace ration::cli {
Result<int> why(const Session& session, const std::string& id) {
  const auto wanted = policy::parse_denial_id(id);
  if (!wanted) {
    return fail("E1412", fmt::format("'{}' is not the number of a denial.", id),
                "They look like d-17-3: see ration ps, or the closing line of the run.", 2);
  }
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  for (const auto& stored : store->list()) {
    const auto& book = stored.contents;
    if (book.run_number != wanted->run) continue;
    for (const auto& denial : book.denials) {
      if (denial.sequence != wanted->number) continue;
      const bool told = denial.device_free != ledger::kUnknownBytes;
      const auto explained = policy::explain_denial(denial, book, stored.live, session.display_units());
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
                            {"because", explained.because},
                            {"fix", explained.fix}};
        if (told)
          data["device_free_bytes"] = denial.device_free;
        else
          data.update({{"device_free_bytes", nullptr}, {"device_free_bytes_na", "the driver did not say"}});
        session.print_json("why", data);
        return 0;
      }
      fmt::print("DENIED   {}  {}/{} (pid {})  {}  {}\n", utc(denial.time_ns), book.tenant, book.name, denial.pid,
                 session.size(denial.requested), denial.function);
      fmt::print("because  {}\n", explained.because);
      if (!explained.not_because.empty())
        fmt::print("not because  {}\n", explained.not_because);
      else if (denial.reason == ledger::DenialReason::kLimit)
        fmt::print("free     n/a (the driver did not say)\n");
      if (denial.waited_ns > 0) fmt::print("after    waiting {}\n", format_duration(denial.waited_ns));
      fmt::print("fix      {}\n", explained.fix);
      return 0;
    }
    return fail("E1413",
                fmt::format("run {} ({}) has no denial {}: it was refused {} times, and the newest 256 are kept.",
                            wanted->run, book.name, id, book.denial_count),
                "ration ps", 3);
  }
  return fail("E1413", fmt::format("no run {} is on the books (the newest 32 that have ended are kept).", wanted->run),
              "ration ps", 3);
}

}  // namespace ration::cli
