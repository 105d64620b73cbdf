#include "node/limits/limits.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/message_json.hpp"
#include "base/say.hpp"
#include "book/status_message.hpp"
#include "book/store_limits.hpp"
#include "node/state/whole_number.hpp"

namespace ration::node {
namespace {

using nlohmann::json;

std::string boot() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

json limit_json(const OwnedWorkload& owned) {
  json accounts = json::array();
  for (const OwnedLimit& limit : owned.accounts) {
    json account{{"configured", limit.configured.count()},
                 {"effective", limit.in_force.count()},
                 {"guarantee", limit.guarantee.count()},
                 {"moved", limit.moved.count()}};
    put_message(account, "held_back_by", limit.held_back_by);
    accounts.push_back(std::move(account));
  }
  json row{{"owner", owned.owner},
           {"run", owned.run},
           {"file_number", owned.file_number},
           {"tenant", owned.tenant},
           {"changes", owned.changes},
           {"changed_by", owned.changed_by},
           {"changed_ns", owned.changed_ns},
           {"suspended", owned.suspended},
           {"held", owned.held_by_person},
           {"away", owned.guarantee_lapsed},
           {"host_limit", owned.host_configured.count()},
           {"accounts", accounts}};
  put_message(row, "altered", owned.altered);
  return row;
}

OwnedWorkload from_json(const json& entry) {
  OwnedWorkload owned;
  owned.owner = whole_number<std::uint32_t>(entry.at("owner"));
  owned.run = whole_number<std::uint64_t>(entry.at("run"));
  owned.file_number = whole_number<std::uint64_t>(entry.at("file_number"));
  owned.changes = whole_number<std::uint64_t>(entry.at("changes"));
  entry.at("changed_by").get_to(owned.changed_by);
  owned.changed_ns = whole_number<std::uint64_t>(entry.at("changed_ns"));
  owned.tenant = entry.value("tenant", "");
  owned.suspended = entry.value("suspended", false);
  owned.held_by_person = entry.value("held", false);
  owned.guarantee_lapsed = entry.value("away", owned.suspended);
  owned.altered = message_in(entry, "altered");
  if (entry.contains("host_limit")) owned.host_configured = Bytes{whole_number<std::uint64_t>(entry["host_limit"])};
  for (const json& account : entry.at("accounts")) {
    const auto bytes = [&](const char* name) { return Bytes{whole_number<std::uint64_t>(account.at(name))}; };
    const Bytes moved = account.contains("moved") ? bytes("moved") : Bytes{0};
    owned.accounts.push_back({bytes("configured"),
                              bytes("effective"),
                              bytes("guarantee"),
                              message_in(account, "held_back_by"),
                              {},
                              {},
                              moved});
  }
  return owned;
}

}  // namespace

// Returns what the book must contain. While a workload is suspended, its guarantee is 0, so that others can have that
// memory.
Limits::Written Limits::book_content(const OwnedWorkload& owned, const OwnedLimit& limit) {
  return {limit.in_force, owned.guarantee_lapsed ? Bytes{0} : limit.guarantee, limit.ceiling,
          limit.granted > Bytes{0} ? limit.granted : limit.configured,
          limit.reach > limit.in_force ? limit.reach : Bytes{0}};
}

Limits::Limits(std::string file) : file_(std::move(file)) {
  file_.read(fixed<"state.limits_lost">(), [this](const json& document) {
    const json& workloads = document.at("workloads");
    if (!workloads.is_object()) throw std::invalid_argument("'workloads' is not an object");
    if (document.at("boot").get<std::string>() != boot()) return;  // after a reboot the entries are stale
    std::unordered_map<std::string, OwnedWorkload> read;
    for (const auto& [path, entry] : workloads.items()) read[path] = from_json(entry);
    owned_ = std::move(read);
  });
}

bool Limits::add(const Workload& workload) {
  std::vector<Written> written;
  const auto& accounts = workload.granted.empty() ? workload.book.accounts : workload.granted;
  const auto known = owned_.find(workload.path);
  if (known != owned_.end() && known->second.file_number == workload.file_number &&
      known->second.owner == workload.owner && known->second.accounts.size() == accounts.size()) {
    // An earlier daemon may have been killed after it suspended a workload and before it saved its file. A suspension
    // removes the guarantees from the workload's book, so a book without them tells that the workload is suspended.
    OwnedWorkload& owned = known->second;
    for (std::size_t i = 0; i < std::min(owned.accounts.size(), workload.book.accounts.size()); ++i)
      if (owned.suspended && owned.accounts[i].guarantee > Bytes{0})
        owned.guarantee_lapsed = workload.book.accounts[i].guarantee == Bytes{0};
    for (const OwnedLimit& limit : owned.accounts) {
      written.push_back(book_content(owned, limit));
      written.back().reach = kUnlimited;  // unknown, since an earlier daemon may have written any value
    }
    written_[workload.path] = std::move(written);
    host_written_[workload.path] = workload.book.host.limit;
    return false;
  }
  OwnedWorkload owned;
  owned.owner = workload.owner;
  owned.run = workload.book.run_number;
  owned.file_number = workload.file_number;
  owned.tenant = workload.book.tenant;
  for (const auto& account : accounts) {
    const Bytes guarantee = std::min(account.guarantee, account.limit);
    owned.accounts.push_back({account.limit, account.limit, guarantee, {}, {}, {}, {}});
    written.push_back({account.limit, account.guarantee, {}, account.limit, kUnlimited});
  }
  owned.host_configured = host_written_[workload.path] = workload.book.host.limit;
  owned_[workload.path] = std::move(owned);
  written_[workload.path] = std::move(written);
  dirty_ = true;
  return true;
}

void Limits::forget(const std::string& path) {
  dirty_ = owned_.erase(path) > 0 || dirty_;
  written_.erase(path);
  host_written_.erase(path);
}

bool Limits::note_altered(const std::string& path, const Message& what) {
  OwnedWorkload* owned = find(path);
  if (owned == nullptr || !owned->altered.empty()) return false;
  owned->altered = what;
  dirty_ = true;
  return true;
}

const OwnedWorkload* Limits::find(const std::string& path) const {
  const auto found = owned_.find(path);
  return found == owned_.end() ? nullptr : &found->second;
}

OwnedWorkload* Limits::find(const std::string& path) {
  const auto found = owned_.find(path);
  return found == owned_.end() ? nullptr : &found->second;
}

std::vector<Bytes> Limits::in_book(const std::string& path) const {
  std::vector<Bytes> limits;
  if (const auto found = written_.find(path); found != written_.end())
    for (const Written& written : found->second) limits.push_back(written.limit);
  return limits;
}

Result<void> Limits::write(const Workload& workload) {
  const OwnedWorkload* owned = find(workload.path);
  if (owned == nullptr)
    return fail("E1411", say<"book.unknown_workload">("workload"_is(workload.book.name)), "ration ps");
  std::vector<book::LimitChange> changes;
  std::vector<Written>& written = written_[workload.path];
  written.resize(owned->accounts.size());
  for (std::uint32_t account = 0; account < owned->accounts.size(); ++account) {
    const Written mine = book_content(*owned, owned->accounts[account]);
    changes.push_back({account, mine.limit, mine.guarantee, mine.ceiling, mine.granted, mine.reach});
  }
  if (const auto status = book::store_limits(workload.descriptor, workload.owner, changes, owned->host_in_force());
      status != book::BookStatus::kOk) {
    return fail("E1411",
                say<"book.unchangeable">("workload"_is(workload.book.name), "reason"_is(book::message_of(status))),
                "ration doctor");
  }
  for (std::uint32_t account = 0; account < owned->accounts.size(); ++account)
    written[account] = book_content(*owned, owned->accounts[account]);
  host_written_[workload.path] = owned->host_in_force();
  return {};
}

bool Limits::is_written(const std::string& path) const {
  const OwnedWorkload* owned = find(path);
  const auto known = written_.find(path);
  return owned != nullptr && known != written_.end() &&
         std::equal(
             known->second.begin(), known->second.end(), owned->accounts.begin(), owned->accounts.end(),
             [&](const Written& written, const OwnedLimit& limit) { return written == book_content(*owned, limit); });
}

std::vector<Alteration> Limits::enforce(const Registry& registry, std::vector<std::string>& failed) {
  std::vector<Alteration> alterations;
  for (const auto& [path, workload] : registry.workloads()) {
    OwnedWorkload* owned = find(path);
    if (owned == nullptr || !workload.unreadable.empty()) continue;
    std::vector<Written>& written = written_[path];
    bool differs = false;
    const bool unwatched = unwatched_.erase(path) > 0;
    const std::size_t count = std::min({workload.book.accounts.size(), owned->accounts.size(), written.size()});
    for (std::uint32_t account = 0; account < count; ++account) {
      const auto& book = workload.book.accounts[account];
      const Written mine = book_content(*owned, owned->accounts[account]);
      if (book.limit != written[account].limit && book.limit != mine.limit)
        alterations.push_back({path, account, book.limit, mine.limit, OwnedNumber::kLimit, unwatched});
      if (book.guarantee != written[account].guarantee && book.guarantee != mine.guarantee)
        alterations.push_back({path, account, book.guarantee, mine.guarantee, OwnedNumber::kGuarantee, unwatched});
      differs = differs || book.limit != mine.limit || book.guarantee != mine.guarantee ||
                written[account].ceiling != mine.ceiling;
    }
    if (const book::HostSnapshot& host = workload.book.host; host.counted && host.limit != owned->host_in_force()) {
      if (host.limit != host_written_[path])
        alterations.push_back(
            {path, book::kHostAccount, host.limit, owned->host_in_force(), OwnedNumber::kHostLimit, unwatched});
      differs = true;
    }
    if (!differs) continue;
    if (const auto done = write(workload); !done) failed.push_back(done.error().what);
  }
  return alterations;
}

Result<void> Limits::save() {
  if (!dirty_) return {};
  json workloads = json::object();
  for (const auto& [path, owned] : owned_) workloads[path] = limit_json(owned);
  const json document{{"boot", boot()}, {"workloads", workloads}};
  RATION_TRY(file_.write(document));
  dirty_ = false;
  return {};
}

std::optional<Error> Limits::save_or_tell() {
  const auto saved = save();
  const bool told = std::exchange(failure_told_, !saved);
  return saved || told ? std::nullopt : std::optional(saved.error());
}

}  // namespace ration::node
