#include "cli/start/gpu_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/utf8.hpp"
#include "cli/text/fields.hpp"

namespace ration::cli {

using nlohmann::json;

std::string GpuChoice::text() const {
  if (any_one) return "auto";
  std::vector<int> numbers;
  for (const machine::Device& device : devices) numbers.push_back(device.index);
  return fmt::format("{}", fmt::join(numbers, ","));
}

Result<GpuChoice> choose_gpus(const Session& session, const machine::Machine& machine, const std::string& typed) {
  if (typed == "auto") return GpuChoice{machine.devices, true};
  if (!typed.empty())
    return machine::choose_devices(machine.devices, typed).map([](std::vector<machine::Device> devices) {
      return GpuChoice{std::move(devices), false};
    });
  // A scheduler may have chosen devices already.
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr && *visible != '\0') {
    if (auto devices = machine::choose_devices(machine.devices, visible)) return GpuChoice{std::move(*devices), false};
    return GpuChoice{machine.devices, true};
  }
  const bool has_instances = std::any_of(machine.devices.begin(), machine.devices.end(),
                                         [](const machine::Device& device) { return device.mig.has_value(); });
  const bool several_typed = session.simulated_node.find_first_of("*,") != std::string::npos;
  return GpuChoice{machine.devices, has_instances || !several_typed};
}

std::vector<Room> rooms_on(const std::vector<machine::Device>& devices, const json& snapshot) {
  std::vector<Room> rooms;
  for (const machine::Device& device : devices) {
    for (const json& row : snapshot.at("devices")) {
      if (row.at("uuid") != device.uuid) continue;
      const Bytes kept = bytes_in(row, "keep_free_bytes");
      rooms.push_back({device, device.total - std::min(device.total, kept), bytes_in(row, "available_bytes"), kept});
    }
  }
  return rooms;
}

const Room& deciding(const std::vector<Room>& rooms, bool any_one) {
  const auto less = [](const Room& left, const Room& right) { return left.available < right.available; };
  return any_one ? *std::max_element(rooms.begin(), rooms.end(), less)
                 : *std::min_element(rooms.begin(), rooms.end(), less);
}

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
                                  session.size(known_bytes(row, "used_bytes"), "the driver does not report it")));
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

}  // namespace ration::cli
