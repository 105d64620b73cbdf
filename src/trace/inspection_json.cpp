#include "trace/inspection_json.hpp"

#include "base/time.hpp"
#include "trace/kinds.hpp"

namespace ration::trace {
namespace {

/// The names of amounts, by Compared.
constexpr const char* kCompared[] = {"events", "denied", "peak", "use", "blocks", "never freed"};

nlohmann::json to_json(const Group& group, const Header& header) {
  nlohmann::json row{{"process", group.process},
                     {"bytes", group.bytes},
                     {"count", group.count},
                     {"total_bytes", group.total()},
                     {"first_seconds", seconds_of(group.first)},
                     {"last_seconds", seconds_of(group.last)},
                     {"spans", group.marks}};
  add_site(row, group.site, header);
  return row;
}

}  // namespace

void add_site(nlohmann::json& row, std::uint32_t site, const Header& header) {
  if (site != 0 && site < header.sites.size()) row["site"] = header.sites[site];
}

nlohmann::json to_json(const Held& held, const Header& header) {
  nlohmann::json parts = nlohmann::json::array(), largest = nlohmann::json::array();
  for (const Share& part : held.parts)
    parts.push_back({{"use", name_of(part.use)}, {"process", part.process}, {"bytes", part.charged}});
  for (const Group& group : held.largest) largest.push_back(to_json(group, header));
  nlohmann::json row{{"seconds", seconds_of(held.time)}, {"bytes", held.charged}, {"requested_bytes", held.requested},
                     {"bytes_at_end", held.at_end},      {"parts", parts},        {"largest", largest},
                     {"timeline_bytes", held.timeline},  {"mark", held.mark}};
  row["ranges"] = nlohmann::json::array();
  for (const Inside& inside : held.inside) {
    nlohmann::json names = nlohmann::json::array();
    for (const std::uint32_t site : inside.sites) names.push_back(site < header.sites.size() ? header.sites[site] : "");
    row["ranges"].push_back({{"process", inside.process}, {"thread", inside.thread}, {"names", std::move(names)}});
  }
  row["gpu"] = gpu_of(held.place);
  if (!held.place.is_host) {
    row["uuid"] = header.devices[held.place.device].uuid;
    row["device_name"] = header.devices[held.place.device].name;
  }
  return row;
}

nlohmann::json to_json(const Inspection& found, const Header& header) {
  nlohmann::json row{{"workload", header.workload},
                     {"began", utc(static_cast<std::uint64_t>(header.began))},
                     {"seconds", seconds_of(found.overview.length)},
                     {"events", found.overview.events},
                     {"lost", header.lost},
                     {"complete", header.complete},
                     {"denial_count", found.overview.denial_count}};
  for (const char* list : {"processes", "held", "never_freed", "sizes", "asked", "denials", "marks"})
    row[list] = nlohmann::json::array();
  for (const Process& process : header.processes)
    row["processes"].push_back({{"pid", process.pid}, {"parent", process.parent}, {"command", process.command}});
  for (const Held& held : found.held) row["held"].push_back(to_json(held, header));
  for (const Group& group : found.overview.never_freed) row["never_freed"].push_back(to_json(group, header));
  for (const SizeClass& size : found.overview.sizes)
    row["sizes"].push_back({{"upto_bytes", size.upto},
                            {"count", size.count},
                            {"freed", size.freed},
                            {"total_bytes", size.bytes},
                            {"middle_lifetime_seconds", seconds_of(size.middle_lifetime)}});
  for (const Asking& asking : found.overview.asked)
    row["asked"].push_back({{"process", asking.process},
                            {"function", name_of(asking.function)},
                            {"times", asking.times},
                            {"least_bytes", asking.least},
                            {"most_bytes", asking.most}});
  for (const Denial& denial : found.overview.denials) {
    row["denials"].push_back({{"seconds", seconds_of(denial.time)},
                              {"by", denial.kind == Kind::kDenied ? "ration" : "driver"},
                              {"gpu", gpu_of(denial.place)},
                              {"process", denial.process},
                              {"bytes", denial.bytes},
                              {"number", denial.detail},
                              {"held_bytes", denial.held}});
    add_site(row["denials"].back(), denial.site, header);
  }
  for (const Mark& mark : found.overview.marks)
    row["marks"].push_back(
        {{"seconds", seconds_of(mark.time)}, {"text", mark.site < header.sites.size() ? header.sites[mark.site] : ""}});
  return row;
}

const char* name_of(Compared what, bool at_peak) {
  return what == Compared::kPeak && !at_peak ? "held" : kCompared[static_cast<std::size_t>(what)];
}

nlohmann::json to_json(const std::vector<Difference>& changes, bool at_peak) {
  nlohmann::json rows = nlohmann::json::array();
  const auto amount = [](const Amount& of) { return nlohmann::json{{"bytes", of.bytes}, {"count", of.count}}; };
  for (const Difference& change : changes) {
    nlohmann::json row{{"what", name_of(change.what, at_peak)},
                       {"name", change.name},
                       {"before", amount(change.before)},
                       {"after", amount(change.after)}};
    if (change.bytes != 0) row["block_bytes"] = change.bytes;
    if (change.place) row["gpu"] = gpu_of(*change.place);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace ration::trace
