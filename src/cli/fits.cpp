// `ration fits`: can that many bytes start now? The answer is the exit code.
#include <fmt/format.h>

#include <algorithm>

#include "base/command.hpp"
#include "cli/fields.hpp"
#include "cli/holders.hpp"
#include "cli/node_client.hpp"
#include "cli/verbs.hpp"

namespace ration::cli {

Result<int> fits(const Session& session, const FitsOptions& options) {
  const auto& [size, gpu] = options;
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  const auto machine = session.machine();
  if (!machine) return tl::unexpected(machine.error());
  const auto chosen = gpu.empty() ? Result<std::vector<policy::Device>>(machine->devices)
                                  : policy::choose_devices(machine->devices, gpu);
  if (!chosen) return tl::unexpected(chosen.error());
  auto daemon = NodeClient::find(session);
  if (!daemon) return tl::unexpected(daemon.error());
  auto rows = nlohmann::json::array();
  if (*daemon) {
    auto answer = (*daemon)->get("/api/v1/devices");
    if (!answer) return tl::unexpected(answer.error());
    rows = std::move(*answer);
  }
  const policy::Device* best = nullptr;
  Bytes best_left, promised_there, kept_there;
  for (const auto& device : *chosen) {
    // What is promised and not yet taken is not free for others; tenants and what is kept free, the daemon knows.
    const auto promises = policy::promises_on(device, *store);
    const Bytes kept = promises.total - promises.taken;
    Bytes left = device.free - std::min(device.free, kept);
    Bytes promised = promises.total, kept_free;
    for (const auto& row : rows) {
      if (row.at("uuid") != device.uuid) continue;
      left = std::min(left, bytes_in(row, "available_bytes"));
      promised = bytes_in(row, "promised_bytes"), kept_free = bytes_in(row, "keep_free_bytes");
    }
    if (best != nullptr && left <= best_left) continue;
    best = &device, best_left = left, promised_there = promised, kept_there = kept_free;
  }
  const auto wanted = parse_size(size, best->total, best->free);
  if (!wanted) return tl::unexpected(wanted.error());
  if (*wanted == Bytes{0}) return fail("E1105", "nothing fits everywhere.", "ration fits 4GiB", 2);
  const bool yes = *wanted <= best_left;
  if (session.format() == Format::kJson) {
    session.print_json("fits", {{"fits", yes},
                                {"gpu", best->index},
                                {"wanted_bytes", wanted->count()},
                                {"available_bytes", best_left.count()}});
    return yes ? 0 : 4;
  }
  if (yes) {
    fmt::print("{}\n", best->index);
    return 0;
  }
  const std::string who = holders_sentence(session, *best, holders(*store));
  std::string why;
  if (best_left < best->free)
    why = fmt::format(" {} are free, but {} are promised{}.", session.size(best->free), session.size(promised_there),
                      kept_there == Bytes{0} ? "" : fmt::format(" and {} kept free", session.size(kept_there)));
  const Bytes whole = round_down(best_left, kGranule);
  return fail("E1302",
              fmt::format("{} does not fit now: the best is GPU {} with {} available of {}.{}{}", session.size(*wanted),
                          best->index, session.size(best_left), session.size(best->total), why,
                          who.empty() ? "" : " Held by " + who + "."),
              fmt::format("{}ration run --on-deny wait …, ration ps",
                          whole == Bytes{0} ? "" : command({"fits", exact_size(whole)}) + "   would, or: "),
              4);
}

}  // namespace ration::cli
