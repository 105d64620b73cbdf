// `ration why`: one denial, explained.
#include <fmt/format.h>

#include "cli/holders.hpp"
#include "cli/node_client.hpp"
#include "cli/verbs.hpp"
#include "policy/denials.hpp"

namespace ration::cli {
namespace {

Result<int> why_from(NodeClient& daemon, const Session& session, const std::string& id) {
  const auto event = daemon.get("/api/v1/denials/" + percent_encoded(id));
  if (!event) return tl::unexpected(event.error());
  if (session.format() == Format::kJson) {
    session.print_json("why", *event, {{"source", "daemon"}});
    return 0;
  }
  const nlohmann::json& why = *event;
  fmt::print("DENIED   {}  {}/{}  {}  {}\n", event->at("time").get<std::string>(), event->value("tenant", ""),
             event->value("workload", ""), session.size(Bytes{event->value("bytes", std::uint64_t{0})}),
             why.value("function", ""));
  fmt::print("because  {}\n", why.value("because", event->at("text").get<std::string>()));
  if (const std::string other = why.value("not_because", ""); !other.empty()) fmt::print("not because  {}\n", other);
  if (event->at("fix").is_string()) fmt::print("fix      {}\n", event->at("fix").get<std::string>());
  return 0;
}

}  // namespace

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
  // An older one: the daemon keeps what the books no longer have.
  auto daemon = NodeClient::find(session);
  if (!daemon) return tl::unexpected(daemon.error());
  if (*daemon) return why_from(**daemon, session, id);
  return fail("E1413", fmt::format("no run {} is on the books (the newest 32 that have ended are kept).", wanted->run),
              "ration ps", 3);
}

}  // namespace ration::cli
