// `ration fits`: can that many bytes start now? The answer is the exit code.
#include <fmt/format.h>

#include <algorithm>

#include "base/command.hpp"
#include "base/utf8.hpp"
#include "cli/fields.hpp"
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

/// Absent: the node does not have that device.
std::optional<Room> room_on(const machine::Device& device, const json& rows) {
  for (const json& row : rows) {
    if (row.at("uuid") != device.uuid) continue;
    const Bytes kept = bytes_in(row, "keep_free_bytes");
    return Room{&device, device.total - std::min(device.total, kept), bytes_in(row, "available_bytes"),
                bytes_in(row, "promised_bytes"), kept};
  }
  return std::nullopt;
}

/// Who holds what, or is kept it: `vision 10.0 GiB, nlp 3.80 GiB (promised 6.00 GiB), not governed: pid 6001 python
/// (carol) 1.60 GiB`; or empty.
std::string holders_on(const Session& session, const json& snapshot, int gpu) {
  std::vector<std::string> parts;
  for (const json& row : snapshot.at("workloads")) {
    if (row.at("gpu") != gpu) continue;
    const Bytes used = known_bytes(row, "used_bytes").value_or(Bytes{0});
    if (!row.at("workload").is_string()) {
      const json& process = row.at("processes").at(0);
      const std::string command = process.at("command").is_string() ? " " + process["command"].get<std::string>() : "";
      parts.push_back(fmt::format("not governed: pid {}{} ({}) {}", process.at("pid").get<int>(),
                                  shortened(command, 61), row.value("user", "n/a"),
                                  session.size(known_bytes(row, "used_bytes"), "the driver does not say")));
      continue;
    }
    const Bytes guarantee = bytes_in(row, "guarantee_bytes");
    const bool away = row.at("state") == "suspended" || row["state"] == "resuming";
    if (away || std::max(used, guarantee) == Bytes{0}) continue;
    parts.push_back(fmt::format("{} {}{}", row["workload"].get<std::string>(), session.size(used),
                                guarantee > used ? fmt::format(" (promised {})", session.size(guarantee)) : ""));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

Result<int> fits(const Session& session, const FitsOptions& options) {
  const auto& [size, gpu] = options;
  const auto machine = session.machine();
  if (!machine) return tl::unexpected(machine.error());
  const auto chosen = gpu.empty() ? Result<std::vector<machine::Device>>(machine->devices)
                                  : machine::choose_devices(machine->devices, gpu);
  if (!chosen) return tl::unexpected(chosen.error());
  const auto snapshot = node_snapshot(session);
  if (!snapshot) return tl::unexpected(snapshot.error());
  Room best, largest;
  for (const auto& device : *chosen) {
    const auto room = room_on(device, snapshot->at("devices"));
    if (!room) continue;
    if (best.device == nullptr || room->available > best.available) best = *room;
    if (largest.device == nullptr || room->largest > largest.largest) largest = *room;
  }
  if (best.device == nullptr)
    return fail("E1532", "the daemon that answers governs other GPUs.", "RATION_SOCKET=<the socket of their daemon>",
                4);
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
  const std::string who = holders_on(session, *snapshot, best.device->index);
  std::string why;
  if (best.device->free && best.available < *best.device->free)
    why = fmt::format(" {} are free, but {} are promised{}.", session.size(*best.device->free),
                      session.size(best.promised),
                      best.kept_free == Bytes{0} ? "" : fmt::format(" and {} kept free", session.size(best.kept_free)));
  const Bytes round = policy::round_size(best.available);
  const std::string wait = snapshot->contains("queue")
                               ? command({"run", "--wait", "--limit", exact_size(*wanted), "--"}) + " …"
                               : std::string("ration run --on-deny wait …");
  return fail("E1302",
              fmt::format("{} does not fit now: the best is GPU {} with {} available of {}.{}{}", session.size(*wanted),
                          best.device->index, session.size(best.available), session.size(best.device->total), why,
                          who.empty() ? "" : " Held by " + who + "."),
              (round == Bytes{0} ? "" : command({"fits", exact_size(round)}) + "   would, or: ") + wait, 4);
}

}  // namespace ration::cli
