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
  if (std::getenv("CUDA_VISIBLE_DEVICES") != nullptr)
    return machine::visible_devices(machine.devices).map([](std::vector<machine::Device> devices) {
      return GpuChoice{std::move(devices), false};
    });
  const bool has_instances = std::any_of(machine.devices.begin(), machine.devices.end(),
                                         [](const machine::Device& device) { return device.mig.has_value(); });
  const bool several_typed = session.simulated_node.find_first_of("*,") != std::string::npos;
  return GpuChoice{machine.devices, has_instances || !several_typed};
}

std::vector<Room> rooms_on(const std::vector<machine::Device>& devices, const json& snapshot) {
  const auto of_tenant = snapshot.find("room");  // an older daemon does not tell it, only the room of no tenant
  const json& devices_now = snapshot.at("devices");
  const json& shares = of_tenant == snapshot.end() ? devices_now : of_tenant->at("devices");
  const std::string tenant = of_tenant == snapshot.end() ? "" : of_tenant->at("tenant").get<std::string>();
  std::vector<Room> rooms;
  for (const machine::Device& device : devices) {
    const auto is_of_device = [&](const json& row) { return row.at("uuid") == device.uuid; };
    const auto row = std::find_if(devices_now.begin(), devices_now.end(), is_of_device);
    const auto share = std::find_if(shares.begin(), shares.end(), is_of_device);
    if (row == devices_now.end() || share == shares.end()) continue;
    rooms.push_back({device, bytes_in(*share, "available_bytes"), bytes_in(*row, "keep_free_bytes"), tenant,
                     known_bytes(*share, "limit_bytes").value_or(kUnlimited),
                     known_bytes(*share, "left_of_limit_bytes").value_or(kUnlimited)});
  }
  return rooms;
}

const Room& deciding(const std::vector<Room>& rooms, bool any_one) {
  const auto less = [](const Room& left, const Room& right) { return left.now() < right.now(); };
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
