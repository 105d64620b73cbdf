// `ration fits`: can that many bytes start now? The answer is the exit code.
#include <fmt/format.h>

#include <algorithm>

#include "base/command.hpp"
#include "cli/fields.hpp"
#include "cli/holders.hpp"
#include "cli/node_client.hpp"
#include "cli/verbs.hpp"
#include "policy/advised_limit.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

/// What a device can give.
struct Room {
  const machine::Device* device = nullptr;
  Bytes largest;    ///< when nobody else is there
  Bytes available;  ///< now, to somebody who is promised nothing
  Bytes promised, kept_free;
};

Room room_on(const machine::Device& device, const ledger::Store& store, const json& rows) {
  for (const json& row : rows) {
    if (row.at("uuid") != device.uuid) continue;
    // The daemon knows who is suspended, what tenants are promised and what is kept free.
    const Bytes kept = bytes_in(row, "keep_free_bytes");
    return {&device, device.total - std::min(device.total, kept), bytes_in(row, "available_bytes"),
            bytes_in(row, "promised_bytes"), kept};
  }
  const auto promises = policy::promises_on(device, store);
  const Bytes kept = promises.total - promises.taken;  // not free for others
  return {&device, device.total, device.room() - std::min(device.room(), kept), promises.total, Bytes{0}};
}

std::vector<DeviceShare> shares_told(const json& snapshot, int gpu) {
  std::vector<DeviceShare> shares;
  for (const json& row : snapshot.at("workloads")) {
    if (row.at("gpu") != gpu) continue;
    if (row.at("workload").is_string())
      shares.push_back({row["workload"].get<std::string>(), bytes_in(row, "used_bytes"),
                        bytes_in(row, "guarantee_bytes"),
                        row.at("state") == "suspended" || row["state"] == "resuming"});
    else
      shares.push_back({fmt::format("not governed: pid {}", row.at("processes").at(0).at("pid").get<int>()),
                        known_bytes(row, "used_bytes").value_or(Bytes{0})});
  }
  return shares;
}

}  // namespace

Result<int> fits(const Session& session, const FitsOptions& options) {
  const auto& [size, gpu] = options;
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  const auto machine = session.machine();
  if (!machine) return tl::unexpected(machine.error());
  const auto chosen = gpu.empty() ? Result<std::vector<machine::Device>>(machine->devices)
                                  : machine::choose_devices(machine->devices, gpu);
  if (!chosen) return tl::unexpected(chosen.error());
  auto daemon = NodeClient::find(session);
  if (!daemon) return tl::unexpected(daemon.error());
  json told;
  if (*daemon) {
    auto answer = (*daemon)->get("/api/v1/snapshot");
    if (!answer) return tl::unexpected(answer.error());
    told = std::move(*answer);
  }
  Room best, largest;
  for (const auto& device : *chosen) {
    const Room room = room_on(device, *store, *daemon ? told.at("devices") : json::array());
    if (best.device == nullptr || room.available > best.available) best = room;
    if (largest.device == nullptr || room.largest > largest.largest) largest = room;
  }
  const auto wanted = parse_size(size, best.device->total, best.device->room());
  if (!wanted) return tl::unexpected(wanted.error());
  if (*wanted == Bytes{0}) return fail("E1105", "nothing fits everywhere.", "ration fits 4GiB", 2);
  const bool yes = *wanted <= best.available;
  if (session.format() == Format::kJson) {
    session.print_json("fits", {{"fits", yes},
                                {"gpu", best.device->index},
                                {"wanted_bytes", wanted->count()},
                                {"available_bytes", best.available.count()}});
    return yes ? 0 : 4;
  }
  if (yes) {
    fmt::print("{}\n", best.device->index);
    return 0;
  }
  if (*wanted > largest.largest)
    return fail(
        "E1104",
        fmt::format(
            "{} never fits: the largest is GPU {} with {}{}.", session.size(*wanted), largest.device->index,
            session.size(largest.device->total),
            largest.kept_free == Bytes{0} ? "" : fmt::format(", {} of it kept free", session.size(largest.kept_free))),
        command({"fits", exact_size(round_down(largest.largest, kGranule))}) + "   is the most to ask for", 4);
  const auto books = holders(*store);
  const std::string who = *daemon ? shares_sentence(session, shares_told(told, best.device->index))
                                  : holders_sentence(session, *best.device, books);
  std::string why;
  if (best.device->free && best.available < *best.device->free)
    why = fmt::format(" {} are free, but {} are promised{}.", session.size(*best.device->free),
                      session.size(best.promised),
                      best.kept_free == Bytes{0} ? "" : fmt::format(" and {} kept free", session.size(best.kept_free)));
  const Bytes round = policy::round_size(best.available);
  const std::string wait = *daemon ? command({"run", "--wait", "--limit", exact_size(*wanted), "--"}) + " …"
                                   : std::string("ration run --on-deny wait …");
  return fail("E1302",
              fmt::format("{} does not fit now: the best is GPU {} with {} available of {}.{}{}", session.size(*wanted),
                          best.device->index, session.size(best.available), session.size(best.device->total), why,
                          who.empty() ? "" : " Held by " + who + "."),
              (round == Bytes{0} ? "" : command({"fits", exact_size(round)}) + "   would, or: ") + wait, 4);
}

}  // namespace ration::cli
