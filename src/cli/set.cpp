// `ration set`: change the limit or the guarantee of something running.
#include <fmt/format.h>

#include "cli/holders.hpp"
#include "cli/node_client.hpp"
#include "cli/verbs.hpp"
#include "policy/text.hpp"

namespace ration::cli {
namespace {

struct Change {
  Holder holder;
  policy::Device device;
  bool free_known = false;  ///< the machine could be asked
  Bytes limit, guarantee;
};

/// The device of an account as the machine shows it; where the machine cannot be asked, as the book has it.
policy::Device device_of(const Holder& holder, const Result<policy::Machine>& machine, bool& known) {
  if (machine) {
    for (const auto& device : machine->devices) {
      if (device.bytes == holder.entry().device) return known = true, device;
    }
  }
  policy::Device device;
  device.bytes = holder.entry().device;
  device.name = holder.entry().device_name;
  device.total = device.free = holder.entry().device_total;
  return device;
}

Result<Change> decide(const SetOptions& options, const Holder& holder, const policy::Device& device,
                      const ledger::Store& store) {
  Change change{holder, device, false, holder.entry().limit, holder.entry().guarantee};
  if (!options.limit.empty()) {
    const auto limit = policy::size_on(device, options.limit);
    if (!limit) return tl::unexpected(limit.error());
    change.limit = *limit;
  }
  if (!options.guarantee.empty()) {
    const auto guarantee = policy::size_on(device, options.guarantee, "guarantee");
    if (!guarantee) return tl::unexpected(guarantee.error());
    change.guarantee = *guarantee;
    if (auto good = policy::can_promise(device, store, *guarantee, options.name, options.name); !good)
      return tl::unexpected(good.error());
  }
  if (change.guarantee > change.limit) {
    return fail("E1305",
                fmt::format("the guarantee {} is more than the limit {}.", format_size(change.guarantee),
                            format_size(change.limit)),
                fmt::format("ration set {} --limit {}MiB", options.name, change.guarantee.count() >> 20), 2);
  }
  return change;
}

std::string reach(const Session& session, const Change& change) {
  const Bytes used = change.holder.entry().used;
  if (change.limit <= change.holder.entry().limit || !change.free_known) return "";
  const Bytes more = change.limit > used ? change.limit - used : Bytes{0};
  return fmt::format(" {} of the GPU is free, so {} is {} today.", session.size(change.device.free),
                     session.size(change.limit), more <= change.device.free ? "reachable" : "not reachable");
}

void print_shrinking(const Session& session, const std::string& name, Bytes used, Bytes limit) {
  fmt::print("{}: shrinking, over by {}. Nothing is taken away; it is refused more until it is under.\n", name,
             session.size(used - limit));
}

Result<void> agree_to_shrink(const Session& session, const SetOptions& options, Bytes used, Bytes limit) {
  fmt::print(stderr, "{} uses {}, {} more than the new limit. New allocations will be refused until it is under {}.\n",
             options.name, session.size(used), session.size(used - limit), session.size(limit));
  if (confirmed(session, "Proceed?")) return {};
  return fail("E1205", "shrinking below what is used was not confirmed; nothing was changed.",
              fmt::format("ration set {} --limit {} --yes", options.name, options.limit), 4);
}

void apply(const Session& session, const Change& change, ledger::Book& book, const SetOptions& options) {
  const auto account = static_cast<std::uint32_t>(change.holder.account);
  const auto& before = change.holder.entry();
  if (!session.dry_run && !options.limit.empty()) book.set_limit(account, change.limit);
  if (!session.dry_run && !options.guarantee.empty()) book.set_guarantee(account, change.guarantee);
  if (session.format() == Format::kJson) return;
  const char* when = session.dry_run ? "would be" : "now";
  if (!options.limit.empty()) {
    fmt::print("{}: limit {} → {} on GPU {} ({}).{}\n", options.name, session.size(before.limit),
               session.size(change.limit), change.device.index, when, reach(session, change));
    if (before.used > change.limit) print_shrinking(session, options.name, before.used, change.limit);
  }
  if (!options.guarantee.empty()) {
    fmt::print("{}: guarantee {} → {} on GPU {} ({}).\n", options.name, session.size(before.guarantee),
               session.size(change.guarantee), change.device.index, when);
  }
}

/// A tenant of the configuration: its workloads together.
Result<int> set_tenant(NodeClient& daemon, const Session& session, const SetOptions& options,
                       const nlohmann::json& wish) {
  const std::string path = "/api/v1/tenants/" + percent_encoded(options.name);
  auto rows = daemon.patch(path + "?dry_run=1", wish);
  if (!rows) return tl::unexpected(rows.error());
  for (const auto& row : *rows) {
    for (const auto& over : row.at("over")) {
      if (session.dry_run) continue;
      const Bytes used{over.at("used_bytes").get<std::uint64_t>()}, limit{over.at("limit_bytes").get<std::uint64_t>()};
      if (auto agreed = agree_to_shrink(session, options, used, limit); !agreed) return tl::unexpected(agreed.error());
    }
  }
  if (!session.dry_run) rows = daemon.patch(path, wish);
  if (!rows) return tl::unexpected(rows.error());
  if (session.format() == Format::kJson) {
    session.print_json("change_tenant", *rows, {{"source", "daemon"}});
    return 0;
  }
  const auto shown = [](const nlohmann::json& text) { return text == "" ? "none" : text.get<std::string>(); };
  for (const auto& row : *rows) {
    fmt::print("tenant {}: {} {} → {} ({}).\n", row.at("tenant").get<std::string>(), row.at("what").get<std::string>(),
               shown(row.at("old")), shown(row.at("new")), session.dry_run ? "would be" : "now");
    for (const auto& over : row.at("over"))
      print_shrinking(session, fmt::format("tenant {} on GPU {}", options.name, over.at("gpu").get<int>()),
                      Bytes{over.at("used_bytes").get<std::uint64_t>()},
                      Bytes{over.at("limit_bytes").get<std::uint64_t>()});
  }
  return 0;
}

/// The daemon owns the numbers of what it governs: it decides, writes and records.
Result<int> set_through(NodeClient& daemon, const Session& session, const SetOptions& options) {
  const std::string path = "/api/v1/workloads/" + percent_encoded(options.name);
  nlohmann::json wish = nlohmann::json::object();
  for (const auto& [field, text] :
       {std::pair{"limit", options.limit}, {"guarantee", options.guarantee}, {"gpu", options.gpu}})
    if (!text.empty()) wish[field] = text;
  auto answer = daemon.patch(path + "?dry_run=1", wish);
  if (!answer && answer.error().id == "E1801") {  // no workload of that name
    auto tenant = set_tenant(daemon, session, options, wish);
    if (tenant || (tenant.error().id != "E1801" && tenant.error().id != "E1502")) return tenant;
  }
  if (!answer) return tl::unexpected(answer.error());
  for (const auto& row : answer->at("changes")) {
    const Bytes used{row.at("used_bytes").get<std::uint64_t>()}, limit{row.at("limit_bytes").get<std::uint64_t>()};
    if (session.dry_run || !row.at("shrinking").get<bool>() ||
        limit >= Bytes{row.at("old_limit_bytes").get<std::uint64_t>()})
      continue;
    if (auto agreed = agree_to_shrink(session, options, used, limit); !agreed) return tl::unexpected(agreed.error());
  }
  if (!session.dry_run) answer = daemon.patch(path, wish);
  if (!answer) return tl::unexpected(answer.error());
  const nlohmann::json& rows = answer->at("changes");
  if (session.format() == Format::kJson) {
    session.print_json("set", rows, {{"source", "daemon"}});
    return 0;
  }
  for (const auto& row : rows) {
    const auto bytes = [&](const char* field) { return Bytes{row.at(field).get<std::uint64_t>()}; };
    fmt::print("{}: limit {} → {}, guarantee {} on GPU {} ({}).", row.at("workload").get<std::string>(),
               session.size(bytes("old_limit_bytes")), session.size(bytes("limit_bytes")),
               session.size(bytes("guarantee_bytes")), row.at("gpu").get<int>(), session.dry_run ? "would be" : "now");
    if (row.contains("held_back_by"))
      fmt::print(" It may hold {} at this moment: {}.", session.size(bytes("effective_limit_bytes")),
                 row["held_back_by"].get<std::string>());
    fmt::print("\n");
    if (row.at("shrinking").get<bool>())
      print_shrinking(session, options.name, bytes("used_bytes"), bytes("limit_bytes"));
  }
  return 0;
}

}  // namespace

Result<int> set(const Session& session, const SetOptions& options) {
  if (options.limit.empty() && options.guarantee.empty()) {
    return fail("E1420", "nothing to change.", fmt::format("ration set {} --limit 6GiB", options.name), 2);
  }
  auto daemon = NodeClient::find(session);
  if (!daemon) return tl::unexpected(daemon.error());
  if (*daemon) return set_through(**daemon, session, options);
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  const auto alone = options.guarantee.empty() ? FileDescriptor{} : store->lock();  // only promises concern others
  const auto machine = session.machine();
  std::vector<Change> changes;
  std::vector<std::string> names;
  for (const Holder& holder : holders(*store)) {
    names.push_back(holder.book.name);
    if (holder.book.name != options.name) continue;
    bool known = false;
    const policy::Device device = device_of(holder, machine, known);
    if (!options.gpu.empty() && options.gpu != std::to_string(device.index) && device.uuid.rfind(options.gpu, 0) != 0)
      continue;
    auto change = decide(options, holder, device, *store);
    if (!change) return tl::unexpected(change.error());
    change->free_known = known;
    changes.push_back(std::move(*change));
  }
  if (changes.empty()) {
    return fail(
        "E1801",
        fmt::format("no running workload is named '{}'{}.{}", options.name,
                    options.gpu.empty() ? "" : " on GPU " + options.gpu, policy::suggestion(options.name, names)),
        "ration ps", 3);
  }
  for (const Change& change : changes) {
    const auto& account = change.holder.entry();
    if (session.dry_run || options.limit.empty() || change.limit >= account.used || change.limit >= account.limit)
      continue;
    if (auto agreed = agree_to_shrink(session, options, account.used, change.limit); !agreed)
      return tl::unexpected(agreed.error());
  }
  ledger::Book book;
  if (const auto status = ledger::Book::open(changes.front().holder.path.c_str(), book);
      status != ledger::BookStatus::kOk) {
    return fail("E1411", fmt::format("the book of {} cannot be changed: {}.", options.name, ledger::describe(status)),
                "ration doctor", status == ledger::BookStatus::kNotPermitted ? 5 : 1);
  }
  auto rows = nlohmann::json::array();
  for (const Change& change : changes) {
    apply(session, change, book, options);
    rows.push_back({{"workload", options.name},
                    {"gpu", change.device.index},
                    {"old_limit_bytes", change.holder.entry().limit.count()},
                    {"limit_bytes", change.limit.count()},
                    {"guarantee_bytes", change.guarantee.count()},
                    {"used_bytes", change.holder.entry().used.count()},
                    {"shrinking", change.holder.entry().used > change.limit},
                    {"applied", !session.dry_run}});
  }
  if (session.format() == Format::kJson) session.print_json("set", rows);
  return 0;
}

}  // namespace ration::cli
