#include "node/limits/unwatched_changes.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/whole_file.hpp"
#include "node/state/whole_number.hpp"

namespace ration::node {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxChanges = std::size_t{1} << 20;  // bytes; far more than the permitted books need

std::string file_in(const std::string& folder) { return folder + "/changes.json"; }

UnwatchedChange change_from_json(const json& entry) {
  UnwatchedChange change;
  change.file_number = whole_number<std::uint64_t>(entry.at("file_number"));
  change.time_ns = whole_number<std::uint64_t>(entry.at("time_ns"));
  for (const json& row : entry.at("accounts")) {
    UnwatchedChange::Account& account = change.accounts[whole_number<std::uint32_t>(row.at("account"))];
    if (row.contains("limit_bytes")) account.limit = Bytes{whole_number<std::uint64_t>(row["limit_bytes"])};
    if (row.contains("guarantee_bytes")) account.guarantee = Bytes{whole_number<std::uint64_t>(row["guarantee_bytes"])};
  }
  if (entry.contains("host_limit_bytes"))
    change.host_limit = Bytes{whole_number<std::uint64_t>(entry["host_limit_bytes"])};
  return change;
}

json change_json(const UnwatchedChange& change) {
  json accounts = json::array();
  for (const auto& [number, account] : change.accounts) {
    json row{{"account", number}};
    if (account.limit) row["limit_bytes"] = account.limit->count();
    if (account.guarantee) row["guarantee_bytes"] = account.guarantee->count();
    accounts.push_back(std::move(row));
  }
  json entry{{"file_number", change.file_number}, {"time_ns", change.time_ns}, {"accounts", std::move(accounts)}};
  if (change.host_limit) entry["host_limit_bytes"] = change.host_limit->count();
  return entry;
}

}  // namespace

std::string folder_of(const std::string& path) {
  const std::size_t end = path.rfind("/books/");
  return end == std::string::npos ? "" : path.substr(0, end);
}

UnwatchedChanges read_unwatched_changes(const std::string& folder, std::uint32_t owner) {
  const auto file = open_regular(file_in(folder), Links::kRejected);
  struct stat status {};
  if (!file || ::fstat(file->get(), &status) != 0 || status.st_uid != owner) return {};
  const auto content = read_whole(file->get(), kMaxChanges);
  if (!content) return {};
  try {
    const json document = json::parse(*content);
    UnwatchedChanges changes;
    for (const auto& [path, entry] : document.items()) changes[path] = change_from_json(entry);
    return changes;
  } catch (const std::exception&) {
    return {};
  }
}

Result<void> write_unwatched_changes(const std::string& folder, const UnwatchedChanges& changes) {
  json document = json::object();
  for (const auto& [path, change] : changes)
    if (::access(path.c_str(), F_OK) == 0) document[path] = change_json(change);
  if (write_whole(file_in(folder), document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n", 0600))
    return {};
  return fail(
      "E1405", fmt::format("{} cannot be written: {}.", file_in(folder), std::strerror(errno)),
      "Free some space there, and repeat the command: the change applies now, but a daemon that starts later will not "
      "know of it.",
      1);
}

}  // namespace ration::node
