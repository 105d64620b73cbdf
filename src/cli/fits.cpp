// `ration fits`: can that many bytes start now? The answer is the exit code.
#include <fmt/format.h>

#include <algorithm>

#include "cli/holders.hpp"
#include "cli/node_client.hpp"
#include "cli/verbs.hpp"

namespace ration::cli {

Result<int> fits(const Session& session, const std::string& size, const std::string& gpu) {
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
  Bytes best_left;
  for (const auto& device : *chosen) {
    // What is promised and not yet taken is not free for others; tenants and what is kept free, the daemon knows.
    const auto promises = policy::promises_on(device, *store);
    const Bytes kept = promises.total - promises.taken;
    Bytes left = device.free - std::min(device.free, kept);
    for (const auto& row : rows)
      if (row.at("uuid") == device.uuid) left = std::min(left, Bytes{row.at("available_bytes").get<std::uint64_t>()});
    if (best == nullptr || left > best_left) best = &device, best_left = left;
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
  return fail(
      "E1302",
      fmt::format("{} does not fit now: the best is GPU {} with {} available of {}.{}", session.size(*wanted),
                  best->index, session.size(best_left), session.size(best->total),
                  who.empty() ? "" : " Held by " + who + "."),
      fmt::format("ration fits {}MiB would, or: ration run --on-deny wait …, ration ps", best_left.count() >> 20), 4);
}

}  // namespace ration::cli
