// `ration set`: change the limit or the guarantee of something running.
#include <fmt/format.h>

#include <fstream>

#include "base/command.hpp"
#include "base/strings.hpp"
#include "cli/fields.hpp"
#include "cli/holders.hpp"
#include "cli/node_client.hpp"
#include "cli/other_versions.hpp"
#include "cli/verbs.hpp"
#include "config/configuration.hpp"
#include "node/limit_changed.hpp"

namespace ration::cli {
namespace {

/// The device of an account as the machine shows it.
const machine::Device* found_on(const Result<machine::Machine>& machine, const Holder& holder) {
  if (!machine) return nullptr;
  for (const auto& device : machine->devices)
    if (device.bytes == holder.entry().device) return &device;
  return nullptr;
}

/// Where the machine cannot be asked: as the book has it.
machine::Device remembered(const Holder& holder) {
  machine::Device device;
  device.bytes = holder.entry().device;
  device.name = holder.entry().device_name;
  device.total = holder.entry().device_total;
  return device;
}

/// A change of one account, not done yet.
struct Decision {
  std::uint32_t account = 0;
  node::LimitChanged change;
};

Result<Decision> decide(const SetOptions& options, const Holder& holder, const machine::Device* present,
                        const ledger::Store& store) {
  const ledger::AccountSnapshot& entry = holder.entry();
  const machine::Device device = present != nullptr ? *present : remembered(holder);
  node::LimitChanged change{.path = holder.path,
                            .workload = holder.book.name,
                            .gpu = present != nullptr ? std::optional(device.index) : std::nullopt,
                            .old_limit = entry.limit,
                            .limit = entry.limit,
                            .effective = entry.limit,
                            .old_guarantee = entry.guarantee,
                            .guarantee = entry.guarantee,
                            .used = entry.used,
                            .device_free = present != nullptr ? device.free : std::nullopt,
                            .held_back_by = {}};
  if (!options.limit.empty()) {
    const auto limit = policy::changed_limit(device, options.limit, entry.limit);
    if (!limit) return tl::unexpected(limit.error());
    change.limit = change.effective = *limit;
  }
  if (!options.guarantee.empty()) {
    const auto guarantee = policy::guarantee_on(device, options.guarantee);
    if (!guarantee) return tl::unexpected(guarantee.error());
    change.guarantee = *guarantee;
    if (auto good = *guarantee <= entry.guarantee
                        ? Result<void>()
                        : policy::can_promise(device, store, *guarantee, options.name, options.name);
        !good)
      return tl::unexpected(good.error());
  }
  if (auto good = node::check_amounts(change); !good) return tl::unexpected(good.error());
  return Decision{static_cast<std::uint32_t>(holder.account), std::move(change)};
}

std::string reach(const Session& session, const nlohmann::json& row) {
  const Bytes used = bytes_in(row, "used_bytes"), limit = bytes_in(row, "limit_bytes");
  if (limit <= bytes_in(row, "old_limit_bytes") || !row.at("device_free_bytes").is_number()) return "";
  const Bytes more = limit > used ? limit - used : Bytes{0}, free = bytes_in(row, "device_free_bytes");
  return fmt::format(" {} of the GPU is free, so {} is {} today.", session.size(free), session.size(limit),
                     more <= free ? "reachable" : "not reachable");
}

void print_shrinking(const Session& session, const std::string& name, Bytes used, Bytes limit) {
  fmt::print("{}: shrinking, over by {}. Nothing is taken away; more is denied until it is under.\n", name,
             session.size(used - limit));
}

Result<void> agree_to_shrink(const Session& session, const SetOptions& options, Bytes used, Bytes limit) {
  return agree_to_shrink(session, options.name, used, limit,
                         command({"set", options.name, "--limit", options.limit, options.gpu.empty() ? "" : "--gpu",
                                  options.gpu, "--yes"}));
}

/// Asks wherever more is held than the new limit. E1205.
Result<void> agree(const Session& session, const SetOptions& options, const nlohmann::json& document) {
  if (session.dry_run || options.limit.empty()) return {};
  for (const auto& row : document.at("changes")) {
    const Bytes limit = bytes_in(row, "limit_bytes");
    if (!row.at("shrinking").get<bool>() || limit >= bytes_in(row, "old_limit_bytes")) continue;
    if (auto agreed = agree_to_shrink(session, options, bytes_in(row, "used_bytes"), limit); !agreed) return agreed;
  }
  return {};
}

void show(const Session& session, const SetOptions& options, const nlohmann::json& document, nlohmann::json more) {
  if (session.format() == Format::kJson) return session.print_json("change", document, more);
  const char* when = session.dry_run ? "would be" : "now";
  for (const auto& row : document.at("changes")) {
    const auto changed = [&](const char* what, const char* old_field, const char* field) {
      const std::string gpu = row.at("gpu").is_number() ? fmt::format(" on GPU {}", row["gpu"].get<int>()) : "";
      return fmt::format("{}: {} {} → {}{} ({}).", row.at("workload").get<std::string>(), what,
                         session.size(bytes_in(row, old_field)), session.size(bytes_in(row, field)), gpu, when);
    };
    if (!options.limit.empty()) {
      fmt::print("{}", changed("limit", "old_limit_bytes", "limit_bytes"));
      if (row.contains("held_back_by"))
        fmt::print(" It may hold {} at this moment: {}.\n", session.size(bytes_in(row, "effective_limit_bytes")),
                   row["held_back_by"].get<std::string>());
      else
        fmt::print("{}\n", reach(session, row));
    }
    if (!options.guarantee.empty()) fmt::print("{}\n", changed("guarantee", "old_guarantee_bytes", "guarantee_bytes"));
    if (!options.limit.empty() && row.at("shrinking").get<bool>())
      print_shrinking(session, options.name, bytes_in(row, "used_bytes"), bytes_in(row, "limit_bytes"));
  }
}

/// Whether a daemon that does not run at this moment remembers that book: it puts its own numbers back.
bool is_remembered(const std::string& path) {
  const auto configuration = config::read_configuration();
  const bool configured = configuration && !configuration->daemon.state.origin.is_default();
  std::ifstream file((configured ? configuration->daemon.state.value : config::default_state_folder()) +
                     "/limits.json");
  const auto document = nlohmann::json::parse(file, nullptr, false);
  const auto workloads = document.is_object() ? document.find("workloads") : document.end();
  return document.is_object() && workloads != document.end() && workloads->is_object() && workloads->contains(path);
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
      const Bytes used = bytes_in(over, "used_bytes"), limit = bytes_in(over, "limit_bytes");
      if (auto agreed = agree_to_shrink(session, options, used, limit); !agreed) return tl::unexpected(agreed.error());
    }
  }
  if (!session.dry_run) rows = daemon.patch(path, wish);
  if (!rows) return tl::unexpected(rows.error());
  if (session.format() == Format::kJson) {
    session.print_json("change_tenant", *rows, {{"source", "daemon"}});
    return 0;
  }
  const auto shown = [](const nlohmann::json& text) {
    return text == "" || text == "0MiB" ? "none" : text.get<std::string>();
  };
  for (const auto& row : *rows) {
    fmt::print("tenant {}: {} {} → {} ({}).\n", row.at("tenant").get<std::string>(), row.at("what").get<std::string>(),
               shown(row.at("old")), shown(row.at("new")), session.dry_run ? "would be" : "now");
    for (const auto& over : row.at("over"))
      print_shrinking(session, fmt::format("tenant {} on GPU {}", options.name, over.at("gpu").get<int>()),
                      bytes_in(over, "used_bytes"), bytes_in(over, "limit_bytes"));
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
  if (policy::takes_guarantee_away(options.guarantee)) wish["guarantee"] = "0MiB";  // a tenant's has to be a size
  auto answer = daemon.patch(path + "?dry_run=1", wish);
  if (!answer && answer.error().id == "E1801") {  // no workload of that name
    auto tenant = set_tenant(daemon, session, options, wish);
    if (tenant || (tenant.error().id != "E1801" && tenant.error().id != "E1502")) return tenant;
  }
  if (!answer) return tl::unexpected(answer.error());
  if (auto agreed = agree(session, options, *answer); !agreed) return tl::unexpected(agreed.error());
  if (!session.dry_run) answer = daemon.patch(path, wish);
  if (!answer) return tl::unexpected(answer.error());
  show(session, options, *answer, {{"source", "daemon"}});
  return 0;
}

}  // namespace

Result<int> set(const Session& session, const SetOptions& options) {
  if (options.limit.empty() && options.guarantee.empty()) {
    return fail("E1420", "nothing to change.", command({"set", options.name, "--limit", "6GiB"}), 2);
  }
  const auto store = session.store();
  if (store)
    if (auto readable = is_of_this_version(*store, options.name); !readable) return tl::unexpected(readable.error());
  auto daemon = NodeClient::find(session);
  if (!daemon) return tl::unexpected(daemon.error());
  if (*daemon) return set_through(**daemon, session, options);
  if (!store) return tl::unexpected(store.error());
  const auto alone = options.guarantee.empty() ? FileDescriptor{} : store->lock();  // only promises concern others
  const auto machine = session.machine();
  std::vector<Decision> decisions;
  std::vector<node::LimitChanged> changes;
  std::vector<std::string> names;
  for (const Holder& holder : holders(*store)) {
    names.push_back(holder.book.name);
    if (holder.book.name != options.name) continue;
    const machine::Device* device = found_on(machine, holder);
    const bool is_meant = options.gpu.empty() || (device != nullptr && device->is_named(options.gpu));
    if (!is_meant) continue;
    auto decision = decide(options, holder, device, *store);
    if (!decision) return tl::unexpected(decision.error());
    changes.push_back(decision->change);
    decisions.push_back(std::move(*decision));
  }
  if (changes.empty()) {
    return fail("E1801",
                fmt::format("no running workload is named '{}'{}.{}", options.name,
                            options.gpu.empty() ? "" : " on GPU " + options.gpu, suggestion(options.name, names)),
                "ration ps", 3);
  }
  const nlohmann::json document = node::changes_json(changes, !session.dry_run);
  if (auto agreed = agree(session, options, document); !agreed) return tl::unexpected(agreed.error());
  for (const auto& [account, change] : decisions) {
    if (session.dry_run) break;
    ledger::Book book;  // several may have the name
    if (const auto status = ledger::Book::open(change.path.c_str(), book); status != ledger::BookStatus::kOk) {
      return fail("E1411", fmt::format("the book of {} cannot be changed: {}.", options.name, ledger::describe(status)),
                  "ration doctor", status == ledger::BookStatus::kNotPermitted ? 5 : 1);
    }
    if (!options.limit.empty()) book.set_limit(account, change.limit);
    if (!options.guarantee.empty()) book.set_guarantee(account, change.guarantee);
  }
  nlohmann::json more = nlohmann::json::object();
  if (is_remembered(changes.front().path)) {
    const char* what = "the daemon that governs it is not running, and puts its own numbers back when it starts.";
    const char* fix = "ration serve, then set it again";
    more["warnings"] = {{{"id", "E1501"}, {"message", what}, {"fix", fix}}};
    if (session.format() != Format::kJson) fmt::print(stderr, "E1501 ration: {}\n      {}\n", what, session.hint(fix));
  }
  show(session, options, document, more);
  return 0;
}

}  // namespace ration::cli
