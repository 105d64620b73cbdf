// `ration ps`: who uses what, now.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "cli/verbs.hpp"
#include "ledger/store.hpp"

namespace ration::cli {

Result<int> ps(bool json) {
  const auto store = ledger::Store::open();
  if (!store) return tl::unexpected(store.error());
  nlohmann::json data = nlohmann::json::array();
  if (!json) fmt::print("{:<24} {:>7} {:<24} {:>10} {:>10} {:>10} {:>6}\n", "WORKLOAD", "RUN", "DEVICE", "USED", "LIMIT", "PEAK", "DENIED");
  for (const auto& stored : store->list()) {
    if (!stored.live) continue;
    ledger::Book book;
    if (ledger::Book::open(stored.path.c_str(), book) == ledger::BookStatus::kOk) book.reap();
    ledger::BookSnapshot now;
    if (ledger::Book::read(stored.path.c_str(), now) != ledger::BookStatus::kOk) continue;
    for (const auto& account : now.accounts) {
      const bool shrinking = account.used > account.limit;
      if (json) {
        nlohmann::json processes = nlohmann::json::array();
        for (const auto& process : now.processes) {
          processes.push_back({{"pid", process.identity.pid}, {"command", process.command}, {"used_bytes", process.held[0].count()}});
        }
        data.push_back({{"workload", now.name}, {"tenant", now.tenant}, {"run", now.run_number}, {"device", account.device_name},
                        {"used_bytes", account.used.count()}, {"limit_bytes", account.limit.count()},
                        {"peak_bytes", account.peak.count()}, {"denials", account.denials}, {"shrinking", shrinking},
                        {"enforced_by", "shim"}, {"processes", processes}});
      } else {
        fmt::print("{:<24} {:>7} {:<24} {:>10} {:>10} {:>10} {:>6}{}\n", now.tenant + "/" + now.name, now.run_number,
                   account.device_name, format_size(account.used), format_size(account.limit), format_size(account.peak),
                   account.denials, shrinking ? "  shrinking" : "");
      }
    }
  }
  if (json) fmt::print("{}\n", nlohmann::json{{"schema", "ration.ps/1"}, {"source", "direct"}, {"data", data}, {"warnings", nlohmann::json::array()}}.dump());
  return 0;
}

}  // namespace ration::cli
