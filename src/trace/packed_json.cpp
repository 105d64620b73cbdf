#include "trace/packed_json.hpp"

namespace ration::trace {

std::string dumped(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json to_json(const Header& header) {
  nlohmann::json devices = nlohmann::json::array(), processes = nlohmann::json::array();
  for (const Device& device : header.devices) {
    nlohmann::json row{{"uuid", device.uuid}, {"name", device.name}, {"total_bytes", device.total.count()}};
    if (device.limit) row["limit_bytes"] = device.limit->count();
    devices.push_back(std::move(row));
  }
  for (const Process& process : header.processes)
    processes.push_back({{"pid", process.pid}, {"parent", process.parent}, {"command", process.command}});
  nlohmann::json json{{"schema", "ration.recording/1"},
                      {"workload", header.workload},
                      {"command", header.command},
                      {"folder", header.folder},
                      {"began_unix_ns", header.began},
                      {"deep", header.deep},
                      {"booked", header.booked},
                      {"complete", header.complete},
                      {"lost", header.lost},
                      {"lacks_ranges", header.lacks_ranges},
                      {"devices", devices},
                      {"processes", processes},
                      {"sites", header.sites}};
  if (header.exit_code) json["exit_code"] = *header.exit_code;
  return json;
}

Header header_of(const nlohmann::json& json) {
  Header header;
  header.workload = json.at("workload").get<std::string>();
  header.command = json.value("command", header.command);
  header.folder = json.value("folder", "");
  header.began = json.at("began_unix_ns").get<std::int64_t>();
  header.deep = json.at("deep").get<bool>();
  header.booked = json.at("booked").get<bool>();
  header.complete = json.at("complete").get<bool>();
  header.lost = json.at("lost").get<std::uint64_t>();
  header.lacks_ranges = json.value("lacks_ranges", false);
  if (json.contains("exit_code")) header.exit_code = json["exit_code"].get<int>();
  header.sites = json.at("sites").get<std::vector<std::string>>();
  for (const auto& row : json.at("devices")) {
    Device device{row.at("uuid"), row.at("name"), Bytes{row.at("total_bytes").get<std::uint64_t>()}, {}};
    if (row.contains("limit_bytes")) device.limit = Bytes{row.at("limit_bytes").get<std::uint64_t>()};
    header.devices.push_back(std::move(device));
  }
  for (const auto& row : json.at("processes"))
    header.processes.push_back({row.at("pid"), row.at("parent"), row.at("command")});
  return header;
}

nlohmann::json to_json(const Summary& summary) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Summary::Row& row : summary.rows)
    rows.push_back({row.device, static_cast<int>(row.account), row.before, row.peak, row.after});
  return {{"from_ns", summary.from}, {"to_ns", summary.to}, {"events", summary.events}, {"accounts", rows}};
}

Summary summary_of(const nlohmann::json& json) {
  Summary summary;
  summary.from = json.at("from_ns").get<std::int64_t>();
  summary.to = json.at("to_ns").get<std::int64_t>();
  summary.events = json.at("events").get<std::uint64_t>();
  for (const auto& row : json.at("accounts"))
    summary.rows.push_back({row.at(0).get<std::uint16_t>(), static_cast<Account>(row.at(1).get<int>()),
                            row.at(2).get<std::int64_t>(), row.at(3).get<std::int64_t>(),
                            row.at(4).get<std::int64_t>()});
  return summary;
}

}  // namespace ration::trace
