#include "node/limits/limit_moves.hpp"

#include "base/units.hpp"

namespace ration::node {

void LimitMoves::note(const AccountKey& account, Bytes from, Bytes to, Message reason, std::uint64_t now_ns) {
  Moves& moves = moves_.try_emplace(account, Moves{from, from, {}, 0, 0, 0}).first->second;
  if (moves.count++ == 0) moves.first_ns = now_ns;
  moves.latest = to;
  moves.reason = std::move(reason);
  moves.last_ns = now_ns;
}

std::optional<LimitMoves::Burst> LimitMoves::take(const AccountKey& account, Moves& moves) {
  if (moves.count == 0) return std::nullopt;
  Burst burst{account, moves.reported, moves.latest, moves.reason, moves.count, moves.first_ns, moves.last_ns};
  moves.count = 0;
  // A burst that is not reported keeps its start, so that many small moves add up to a burst that can be seen in the
  // text.
  if (format_size(burst.from) == format_size(burst.to)) return std::nullopt;
  moves.reported = moves.latest;
  return burst;
}

std::vector<LimitMoves::Burst> LimitMoves::take_ended(std::uint64_t now_ns) {
  std::vector<Burst> taken;
  for (auto& [account, moves] : moves_) {
    if (now_ns < moves.last_ns + kQuiet && now_ns < moves.first_ns + kMaxDelay) continue;
    if (auto burst = take(account, moves)) taken.push_back(std::move(*burst));
  }
  return taken;
}

std::vector<LimitMoves::Burst> LimitMoves::take_for(const std::string& path) {
  std::vector<Burst> taken;
  for (auto each = moves_.lower_bound({path, 0}); each != moves_.end() && each->first.first == path; ++each)
    if (auto burst = take(each->first, each->second)) taken.push_back(std::move(*burst));
  return taken;
}

void LimitMoves::forget(const std::string& path) {
  std::erase_if(moves_, [&](const auto& each) { return each.first.first == path; });
}

}  // namespace ration::node
