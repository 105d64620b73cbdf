// `ration explain`: where the bytes of a process, a workload or a device are, and which numbers elsewhere they match.
#include <fmt/format.h>

#include <algorithm>

#include "cli/holders.hpp"
#include "cli/verbs.hpp"

namespace ration::cli {
namespace {

struct Part {
  std::string key, label;
  std::optional<Bytes> bytes;
  std::string source;  // or the reason why there is no number
};

nlohmann::json as_json(const std::vector<Part>& parts) {
  auto rows = nlohmann::json::array();
  for (const Part& part : parts) {
    nlohmann::json row{{"part", part.key}, {"label", part.label}};
    if (part.bytes)
      row.update({{"bytes", part.bytes->count()}, {"source", part.source}});
    else
      row.update({{"bytes", nullptr}, {"bytes_na", part.source}});
    rows.push_back(row);
  }
  return rows;
}

void print_parts(const Session& session, const std::vector<Part>& parts, const std::optional<Bytes>& total,
                 const std::string& note) {
  const auto line = [&](const std::string& label, const std::string& size, const std::string& percent,
                        const std::string& source) {
    fmt::print("  {:<38} {:>10}  {:>4}   {}\n", label, size, percent, source);
  };
  for (const Part& part : parts) {
    if (!part.bytes) {
      line(part.label, "n/a", "", "(" + part.source + ")");
      continue;
    }
    const bool share = total && *total > Bytes{0};
    line(part.label, session.size(*part.bytes),
         share ? fmt::format("{}%", part.bytes->count() * 100 / total->count()) : "", part.source);
  }
  fmt::print("  {}\n", std::string(53, '-'));
  line("total, as nvidia-smi shows it", total ? session.size(*total) : "n/a", "", note);
}

// The kinds of bytes a governed process holds on one device.
std::vector<Part> parts_of(const ledger::ProcessSnapshot& process, std::size_t account,
                           const std::optional<Bytes>& driver, bool contexts_counted) {
  const Bytes held = process.held[account], context = process.context[account], pooled = process.pooled[account];
  const Bytes special = context + pooled;
  std::vector<Part> parts{
      {"allocated", "allocated by the program", special < held ? held - special : Bytes{0},
       "book (tensors, and what its framework caches)"},
      {"pooled", "reserved by the driver's pools", pooled, "book"},
      {"context", "CUDA context", contexts_counted ? std::optional(context) : std::nullopt,
       contexts_counted ? "book, measured when it was made" : "account = heap: contexts are not entered"},
      {"framework_free", "of these, free inside the framework", std::nullopt,
       "only the framework knows: torch.cuda.memory_reserved - memory_allocated"}};
  if (driver) {
    parts.push_back({"unexplained", "not explained (code, driver)", *driver > held ? *driver - held : Bytes{0},
                     "driver minus book"});
  } else {
    parts.push_back({"unexplained", "not explained (code, driver)", std::nullopt,
                     "the driver does not attribute memory to this process"});
  }
  return parts;
}

std::optional<Bytes> by_driver(const std::vector<policy::Device>& devices, const ledger::DeviceUuid& uuid,
                               std::int32_t pid) {
  for (const auto& device : devices) {
    if (device.bytes != uuid || !device.processes) continue;
    for (const auto& process : *device.processes) {
      if (process.pid == pid) return process.held;
    }
  }
  return std::nullopt;
}

void print_other_numbers() {
  fmt::print("Other numbers you may be looking at\n");
  fmt::print("  torch.cuda.memory_allocated / tf get_memory_info 'current'   part of the first row\n");
  fmt::print(
      "  torch.cuda.memory_reserved                                   the first row (caching allocator) or the second "
      "(cudaMallocAsync)\n");
  fmt::print("  nvidia-smi, nvtop                                            the total\n");
}

Result<int> explain_device(const Session& session, const policy::Device& device, const std::vector<Holder>& all) {
  std::vector<Part> parts;
  Bytes known;
  for (const Holder& holder : all) {
    if (holder.entry().device != device.bytes) continue;
    parts.push_back({holder.book.name, fmt::format("{}/{}", holder.book.tenant, holder.book.name), holder.entry().used,
                     fmt::format("book, limit {}", session.size(holder.entry().limit))});
    known += holder.entry().used;
  }
  for (const Ungoverned& process : ungoverned(device, all)) {
    parts.push_back({fmt::format("pid-{}", process.pid),
                     fmt::format("not governed: {} (pid {})", process.command.substr(0, 16), process.pid), process.held,
                     process.held ? "driver" : "the driver does not say"});
    known += process.held.value_or(Bytes{0});
  }
  const Bytes used = device.total - device.free;
  const auto orphaned = policy::orphaned(device);
  const Bytes rest = used - std::min(used, known), lost = std::min(rest, orphaned.value_or(Bytes{0}));
  parts.push_back({"orphaned", "in use, and of no process", orphaned ? std::optional(lost) : std::nullopt,
                   orphaned ? "driver minus its processes" : "the driver does not say"});
  parts.push_back({"unexplained", "driver's own, and not explained", rest - lost, "driver minus the rows above"});
  if (session.format() == Format::kJson) {
    session.print_json("explain", {{"gpu", device.index},
                                   {"name", device.name},
                                   {"total_bytes", device.total.count()},
                                   {"free_bytes", device.free.count()},
                                   {"used_bytes", used.count()},
                                   {"parts", as_json(parts)}});
    return 0;
  }
  fmt::print("GPU {} {} - where {} of {} are\n", device.index, device.name, session.size(used),
             session.size(device.total));
  print_parts(session, parts, used, fmt::format("{} free", session.size(device.free)));
  return 0;
}

}  // namespace

Result<int> explain(const Session& session, const std::string& target, const std::string& gpu) {
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  const auto all = holders(*store);
  const auto machine = session.machine();
  const std::vector<policy::Device> devices = machine ? machine->devices : std::vector<policy::Device>{};
  if (target.empty()) {
    if (!machine) return tl::unexpected(machine.error());
    const auto chosen = policy::choose_devices(devices, gpu.empty() ? "0" : gpu);
    if (!chosen) return tl::unexpected(chosen.error());
    for (const auto& device : *chosen) {
      if (auto done = explain_device(session, device, all); !done) return done;
    }
    return 0;
  }
  auto rows = nlohmann::json::array();
  for (const Holder& holder : all) {
    for (const auto& process : holder.book.processes) {
      if (holder.book.name != target && std::to_string(process.identity.pid) != target) continue;
      const auto driver = by_driver(devices, holder.entry().device, process.identity.pid);
      const auto parts =
          parts_of(process, holder.account, driver, holder.book.account_mode == ledger::AccountMode::kDevice);
      const auto total = driver ? driver : std::optional(process.held[holder.account]);
      rows.push_back({{"pid", process.identity.pid},
                      {"command", process.command},
                      {"workload", holder.book.name},
                      {"device", holder.entry().device_name},
                      {"held_bytes", process.held[holder.account].count()},
                      {"limit_bytes", holder.entry().limit.count()},
                      {"parts", as_json(parts)}});
      if (session.format() == Format::kJson) continue;
      fmt::print("{} (pid {}, workload {}) on {} - where {} are\n", process.command, process.identity.pid,
                 holder.book.name, holder.entry().device_name, session.size(*total));
      print_parts(session, parts, driver,
                  fmt::format("limit counts {} of {} (account = {})", session.size(process.held[holder.account]),
                              session.size(holder.entry().limit),
                              holder.book.account_mode == ledger::AccountMode::kDevice ? "device" : "heap"));
    }
  }
  if (rows.empty()) {
    for (const auto& device : devices) {
      for (const auto& process : ungoverned(device, all)) {
        if (std::to_string(process.pid) != target) continue;
        return fail(
            "E1807",
            fmt::format("pid {} ({}) is not governed: it holds {} on GPU {} and nothing more is known.", process.pid,
                        process.command, session.size(process.held, "the driver does not say"), device.index),
            "Start it through ration: ration run --limit SIZE -- …", 3);
      }
    }
    return fail("E1801", fmt::format("no running workload or process '{}' holds GPU memory.", target), "ration ps", 3);
  }
  if (session.format() == Format::kJson)
    session.print_json("explain", rows);
  else
    print_other_numbers();
  return 0;
}

}  // namespace ration::cli
