// `ration split`: cuts a GPU into named slices, shows them, or removes them.
#include <fmt/format.h>

#include <algorithm>

#include "admission/promises.hpp"
#include "admission/slices.hpp"
#include "base/command.hpp"
#include "base/printable.hpp"
#include "base/strings.hpp"
#include "cli/session/node_access.hpp"
#include "cli/text/fields.hpp"
#include "cli/verbs/verbs.hpp"
#include "config/values.hpp"

namespace ration::cli {
namespace {

Result<std::vector<admission::Slice>> named(const machine::Device& device, const std::vector<Bytes>& shares,
                                            const SplitOptions& options) {
  std::vector<std::string> names;
  if (options.names.empty())
    for (std::size_t i = 0; i < shares.size(); ++i) names.push_back(fmt::format("{}.{}", device.index, i));
  else
    for (const std::string_view name : ration::split(options.names, ',')) names.emplace_back(name);
  if (names.size() != shares.size()) {
    return fail("E1607",
                fmt::format("--names has {} for {}.", counted(names.size(), "name"), counted(shares.size(), "slice")),
                "Give one name for each slice: --names a,b", 2);
  }
  std::vector<admission::Slice> slices;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (!config::is_name(names[i]) || std::count(names.begin(), names.end(), names[i]) > 1) {
      return fail("E1607", fmt::format("'{}' is not a valid name for a slice, or is used twice.", printable(names[i])),
                  "Use up to 59 letters without spaces, slashes, double quotes or commas.", 2);
    }
    slices.push_back({names[i], device.uuid, shares[i]});
  }
  return slices;
}

/// The promised memory of a device.
struct Promised {
  Bytes promised;  ///< guarantees of tenants and workloads, slices, and memory kept free
  Bytes bursting;  ///< memory held beyond guarantees, which a daemon would reclaim for new guarantees
};

/// Returns the promised memory. Fails with E1502 if a daemon runs and this user is no operator, since slices keep
/// memory from others.
Result<Promised> promised_on(const Session& session, const machine::Device& device) {
  RATION_TRY(const auto node, NodeAccess::open(session));
  const auto self = node->is_daemon() ? node->get("/api/v1/session") : nlohmann::json{{"role", "operator"}};
  if (!self) return tl::unexpected(self.error());
  if (self->at("role") != "operator")
    return fail(
        "E1502", fmt::format("only an operator may cut GPU {} into slices.", device.index),
        fmt::format("Root or a member of group ration may type: {}   or set slices under [[device]] in ration.toml",
                    command({"split", std::to_string(device.index), "--into", "4"})),
        5);
  RATION_TRY(const auto snapshot, node->get("/api/v1/snapshot"));
  Promised found;
  for (const auto& row : snapshot.at("devices"))
    if (row.at("uuid") == device.uuid)
      found.promised = bytes_in(row, "promised_bytes") + bytes_in(row, "keep_free_bytes");
  for (const auto& row : snapshot.at("workloads")) {
    if (!node->is_daemon() || row.at("governed") != true) continue;
    if (row.value("uuid", std::string()) != device.uuid) continue;
    const Bytes used = bytes_in(row, "used_bytes");
    found.bursting += used - std::min(used, bytes_in(row, "guarantee_bytes"));
  }
  return found;
}

/// Returns the same command with --yes.
std::string confirmed_command(const SplitOptions& options) {
  const std::string into = options.into ? std::to_string(*options.into) : "";
  return command({"split", options.gpu, into.empty() ? "" : "--into", into, options.sizes.empty() ? "" : "--sizes",
                  options.sizes, options.ratio.empty() ? "" : "--ratio", options.ratio,
                  options.names.empty() ? "" : "--names", options.names, "--yes"});
}

Result<std::vector<Bytes>> shares_of(const machine::Device& device, const SplitOptions& options) {
  const int ways = options.into.has_value() + !options.sizes.empty() + !options.ratio.empty();
  if (ways != 1)
    return fail("E1609", "split needs exactly one of --into, --sizes and --ratio.", "ration split 0 --into 4", 2);
  if (!options.sizes.empty()) return admission::parse_shares(device, options.sizes);
  return options.ratio.empty() ? admission::equal_shares(device, *options.into)
                               : admission::ratio_shares(device, options.ratio);
}

std::string gpu_of(const machine::Machine& machine, const admission::Slice& slice) {
  const auto device = machine::choose_devices(machine.devices, slice.uuid);
  return device ? std::to_string(device->front().index) : slice.uuid;
}

void show(const Session& session, const machine::Machine& machine, const book::Store& store,
          const std::vector<admission::Slice>& slices, bool planned) {
  const auto books = store.list();
  if (session.format() == Format::kJson) {
    auto rows = nlohmann::json::array();
    for (const auto& slice : slices) {
      const auto* inside = admission::occupant(books, slice.name);
      nlohmann::json row{
          {"slice", slice.name},
          {"uuid", slice.uuid},
          {"limit_bytes", slice.size.count()},
          {"workload", inside == nullptr ? nlohmann::json(nullptr) : nlohmann::json(inside->contents.name)}};
      if (inside == nullptr) row["workload_na"] = "no workload is in the slice";
      rows.push_back(row);
    }
    session.print_json("split", rows);
    return;
  }
  Table table({{"SLICE", "slice"},
               {"GPU", "gpu"},
               {"LIMIT", "limit_bytes", true},
               {"FOR PROGRAMS*", "usable_bytes", true},
               {"IN IT", "workload"}});
  for (const auto& slice : slices) {
    const auto device = machine::choose_devices(machine.devices, slice.uuid);
    std::optional<Bytes> usable;
    if (device) {
      const auto context = machine::context_cost(device->front(), machine.driver_version, store.folder());
      if (context && *context < slice.size) usable = slice.size - *context;
    }
    const auto* inside = admission::occupant(books, slice.name);
    table.add({slice.name, device ? std::to_string(device->front().index) : "gone", session.size(slice.size),
               session.size(usable, "not measured"), inside == nullptr ? "-" : inside->contents.name});
  }
  table.print(session.format());
  if (session.format() != Format::kText) return;
  fmt::print("* after one CUDA context ({} measures it). Slices divide memory only; compute is still shared.\n",
             session.hint("ration doctor --probe"));
  if (planned)
    fmt::print("dry run: nothing was changed\n");
  else
    fmt::print("use:  {} CMD      undo:  {}\n", session.hint(command({"run", "--slice", slices.front().name, "--"})),
               session.hint(command({"split", gpu_of(machine, slices.front()), "--off"})));
}

}  // namespace

void print_slices(const Session& session, int gpu, const std::string& uuid) {
  const auto store = session.store();
  if (!store) return;
  auto slices = admission::read_slices(*store);
  if (!slices) return;  // ration split and ration doctor report a damaged file
  std::erase_if(*slices, [&](const admission::Slice& slice) { return slice.uuid != uuid; });
  if (slices->empty()) return;
  const auto books = store->list();
  std::vector<std::string> shown;
  const admission::Slice* free = nullptr;
  for (const admission::Slice& slice : *slices) {
    const auto* inside = admission::occupant(books, slice.name);
    if (inside == nullptr && free == nullptr) free = &slice;
    shown.push_back(fmt::format("{} {} {}", slice.name, session.size(slice.size),
                                inside == nullptr ? "free" : inside->contents.name));
  }
  fmt::print("GPU {} is cut into slices: {}\n", gpu, fmt::join(shown, " · "));
  if (free != nullptr) fmt::print("  use:  {} CMD\n", session.hint(command({"run", "--slice", free->name, "--"})));
  fmt::print("  undo: {}\n", session.hint(command({"split", std::to_string(gpu), "--off"})));
}

Result<int> split(const Session& session, const SplitOptions& options) {
  RATION_TRY(const auto store, session.store());
  const auto machine = session.machine();
  if (!machine) return tl::unexpected(machine.error());
  const auto alone = store.lock();
  RATION_TRY(auto present, admission::read_slices(store));
  const bool change =
      options.off || options.into || !options.sizes.empty() || !options.ratio.empty() || !options.names.empty();
  if (options.gpu.empty() || !change) {
    if (change) return fail("E1609", "split needs a GPU.", "ration split 0 --into 4", 2);
    if (!options.gpu.empty()) {
      RATION_TRY(const auto device, machine::choose_devices(machine->devices, options.gpu));
      std::erase_if(present, [&](const auto& slice) { return slice.uuid != device.front().uuid; });
    }
    if (present.empty() && session.format() == Format::kText)
      fmt::print("no slices.  {}\n", session.hint("ration split 0 --into 4"));
    else
      show(session, *machine, store, present, false);
    return 0;
  }
  RATION_TRY(const auto chosen, machine::choose_devices(machine->devices, options.gpu));
  const machine::Device& device = chosen.front();
  const auto books = store.list();
  Bytes slices_now;
  for (const auto& slice : present) {
    if (slice.uuid != device.uuid) continue;
    slices_now += slice.size;
    if (const auto* inside = admission::occupant(books, slice.name); inside != nullptr) {
      return fail("E1604",
                  fmt::format("slice {} is in use by {} (pid {}).", slice.name, inside->contents.name,
                              inside->contents.creator.pid),
                  "Wait until the workload ends: ration ps   shows whether it still runs", 4);
    }
  }
  std::vector<admission::Slice> slices;
  if (!options.off) {
    RATION_TRY(const auto shares, shares_of(device, options));
    RATION_TRY(auto made, named(device, shares, options));
    slices = std::move(made);
    Bytes needed;
    for (const auto& slice : slices) needed += slice.size;
    RATION_TRY(const auto now, promised_on(session, device));
    const Bytes promised = now.promised - std::min(now.promised, slices_now);  // without the promises of the old slices
    admission::Promises others;
    others.add_workload("others", promised);
    if (const auto good = others.can_add(device, "slices", needed); needed > slices_now && !good) {
      Error error = good.error();
      error.fix = fmt::format("Cut slices of at most {} in total, or end a workload: ration ps   shows the workloads",
                              session.size(device.total - std::min(device.total, promised)));
      return tl::unexpected(std::move(error));
    }
    const Bytes left = device.total - std::min(device.total, needed + promised);
    if (!session.dry_run && now.bursting > left) {
      const std::string who = fmt::format("GPU {}, beyond guarantees,", device.index);
      if (auto agreed = agree_to_shrink(session, who, now.bursting, left, confirmed_command(options)); !agreed)
        return tl::unexpected(agreed.error());
    }
  }
  if (!session.dry_run) {
    if (auto written = admission::write_slices(store, device, slices); !written) return tl::unexpected(written.error());
  }
  if (!slices.empty() || session.format() != Format::kText)
    show(session, *machine, store, slices, session.dry_run);
  else
    fmt::print("GPU {} {} whole again.\n", device.index, session.dry_run ? "would be" : "is");
  return 0;
}

}  // namespace ration::cli
