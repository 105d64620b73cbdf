#include "history/readings.hpp"

#include <algorithm>
#include <set>

namespace ration::history {

Readings::Reading Readings::news(Database& database, const Pending::RunKeyNow& run, const Reading& now) {
  const auto [place, is_new] = known_.try_emplace(run);
  Reading& known = place->second;
  if (is_new) {
    Statement stored(database, "SELECT peak, denials FROM run_devices WHERE run = ? AND device = ?");
    if (stored.with(run.run, run.device).row()) known = {stored.integer(0), stored.integer(1)};
  }
  const Reading news{now.peak > known.peak ? now.peak : 0, std::max<std::int64_t>(now.denials - known.denials, 0)};
  known = {std::max(known.peak, now.peak), std::max(known.denials, now.denials)};
  return news;
}

void Readings::note_stored(const Instant& last) {
  std::set<Pending::RunKeyNow> alive;
  for (const auto& holding : last.holdings) alive.insert({holding.run, holding.device});
  std::erase_if(known_, [&](const auto& each) { return !alive.contains(each.first); });
}

}  // namespace ration::history
