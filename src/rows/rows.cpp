#include "rows/rows.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ration::rows {
namespace {

using nlohmann::json;

const json& list_in(const json& row, const char* field) {
  static const json kNone = json::array();
  if (!row.is_object()) return kNone;
  const auto found = row.find(field);
  return found != row.end() && found->is_array() ? *found : kNone;
}

std::optional<int> gpu_in(const json& row) {
  const auto number = number_in(row, "gpu");
  return number && *number < 100'000 ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

bool true_in(const json& row, const char* field) {
  const auto found = row.is_object() ? row.find(field) : row.end();
  return row.is_object() && found != row.end() && found->is_boolean() && found->get<bool>();
}

Process read_process(const json& row) {
  Process process;
  if (const auto pid = number_in(row, "pid")) process.pid = static_cast<std::int64_t>(*pid);
  process.user = text_in(row, "user");
  process.command = text_in(row, "command");
  process.state = text_in(row, "state");
  process.used = bytes_in(row, "used_bytes");
  return process;
}

Row read_row(const json& from) {
  Row row;
  row.governed = true_in(from, "governed");
  row.unknown = from.contains("governed") && from.at("governed").is_null();
  for (auto [field, place] : {std::pair{"tenant", &row.tenant},
                              {"workload", &row.name},
                              {"user", &row.user},
                              {"command", &row.command},
                              {"labels", &row.labels},
                              {"state", &row.state},
                              {"slice", &row.slice},
                              {"enforced_by", &row.enforced_by},
                              {"held_back_by", &row.held_back_by},
                              {"book_altered", &row.book_altered},
                              {"last_denial", &row.last_denial},
                              {"device", &row.device}})
    *place = text_in(from, field);
  row.where = text_in(from, "container");
  if (row.where.empty()) row.where = text_in(from, "origin");
  row.gpu = gpu_in(from);
  row.used = bytes_in(from, "used_bytes");
  row.limit = bytes_in(from, "limit_bytes");
  row.configured_limit = bytes_in(from, "configured_limit_bytes");
  row.guarantee = bytes_in(from, "guarantee_bytes");
  row.peak = bytes_in(from, "peak_bytes");
  row.context = bytes_in(from, "context_bytes");
  row.pooled = bytes_in(from, "pooled_bytes");
  row.pinned = bytes_in(from, "host_used_bytes");
  row.host_limit = bytes_in(from, "host_limit_bytes");
  row.run = number_in(from, "run");
  row.denials = number_in(from, "denials");
  row.idle_seconds = number_in(from, "idle_seconds");
  row.limit_changes = number_in(from, "limit_changes");
  for (const json& process : list_in(from, "processes")) row.processes.push_back(read_process(process));
  row.process_count = std::max<std::uint64_t>(number_in(from, "process_count").value_or(0), row.processes.size());
  if (!row.governed && !row.processes.empty()) row.command = row.processes.front().command;
  return row;
}

Device read_device(const json& from) {
  Device device;
  device.gpu = gpu_in(from).value_or(0);
  device.name = text_in(from, "name");
  device.total = bytes_in(from, "total_bytes");
  device.used = bytes_in(from, "used_bytes");
  device.free = bytes_in(from, "free_bytes");
  device.available = bytes_in(from, "available_bytes");
  device.ungoverned = bytes_in(from, "ungoverned_bytes");
  device.unexplained = bytes_in(from, "unexplained_bytes");
  device.utilisation = number_in(from, "utilisation_percent");
  device.temperature = number_in(from, "temperature_celsius");
  device.seconds_to_full = number_in(from, "time_to_full_seconds");
  return device;
}

Waiting read_waiting(const json& from) {
  return {
      text_in(from, "lease"), text_in(from, "tenant"),          text_in(from, "name"),   text_in(from, "user"),
      text_in(from, "gpu"),   text_in(from, "reason"),          bytes_in(from, "bytes"), number_in(from, "position"),
      number_in(from, "of"),  number_in(from, "waited_seconds")};
}

}  // namespace

std::optional<std::uint64_t> number_in(const json& row, const char* field) {
  if (!row.is_object()) return std::nullopt;
  const auto found = row.find(field);
  if (found == row.end() || !found->is_number_integer()) return std::nullopt;
  if (!found->is_number_unsigned() && found->get<std::int64_t>() < 0) return std::nullopt;
  return found->get<std::uint64_t>();
}

std::optional<Bytes> bytes_in(const json& row, const char* field) {
  const auto number = number_in(row, field);
  return number ? std::optional(Bytes{*number}) : std::nullopt;
}

std::string text_in(const json& row, const char* field) {
  if (!row.is_object()) return {};
  const auto found = row.find(field);
  return found != row.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

std::string Row::key() const {
  const std::string place = gpu ? std::to_string(*gpu) : device;
  if (governed) return fmt::format("{}/{}/{}/{}", tenant, name, run.value_or(0), place);
  return fmt::format("?{}/{}", processes.empty() ? -1 : processes.front().pid.value_or(-1), place);
}

std::string Row::title() const {
  if (governed) return tenant + "/" + name;
  const std::string program = command.substr(0, command.find(' '));
  return "?/" + (program.empty() ? "process" : program.substr(program.rfind('/') + 1));
}

bool Row::full() const { return used && limited() && *limit - std::min(*limit, *used) < kGranule; }

const Device* Model::device(std::optional<int> gpu) const {
  const auto found =
      std::find_if(devices.begin(), devices.end(), [&](const Device& device) { return gpu && device.gpu == *gpu; });
  return found == devices.end() ? nullptr : &*found;
}

Model read_snapshot(const json& data) {
  Model model;
  for (const json& device : list_in(data, "devices")) model.devices.push_back(read_device(device));
  for (const json& row : list_in(data, "workloads")) model.rows.push_back(read_row(row));
  for (const json& tenant : list_in(data, "tenants")) {
    for (const json& account : list_in(tenant, "accounts"))
      model.accounts.push_back(
          {text_in(tenant, "tenant"), gpu_in(account).value_or(0), bytes_in(account, "limit_bytes")});
  }
  for (const json& waiting : list_in(data, "queue")) model.queue.push_back(read_waiting(waiting));
  model.problem = text_in(data, "devices_na");
  for (const json& warning : list_in(data, "warnings"))
    if (model.problem.empty()) model.problem = text_in(warning, "message");
  return model;
}

Event read_event(const json& from) {
  return {static_cast<std::int64_t>(number_in(from, "id").value_or(0)),
          text_in(from, "time"),
          text_in(from, "type"),
          text_in(from, "tenant"),
          text_in(from, "workload"),
          text_in(from, "text"),
          text_in(from, "denial"),
          text_in(from, "fix"),
          gpu_in(from)};
}

}  // namespace ration::rows
