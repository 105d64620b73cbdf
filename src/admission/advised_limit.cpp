#include "admission/advised_limit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/command.hpp"
#include "base/units.hpp"

namespace ration::admission {
namespace {

using namespace literals;

Bytes step_for(Bytes size) { return size < 4_GiB ? 256_MiB : size < 16_GiB ? 512_MiB : 1_GiB; }

}  // namespace

Bytes round_size(Bytes most) {
  const Bytes rounded = round_down(most, step_for(most));
  return rounded > Bytes{0} ? rounded : round_down(most, kGranule);
}

std::optional<Bytes> advised_limit(Bytes needed, Bytes grantable) {
  const Bytes most = round_down(grantable, kGranule);
  if (needed > most) return std::nullopt;
  const Bytes step = step_for(needed), wanted = round_up(needed + Bytes{needed.count() / 8}, step);
  if (wanted <= most) return wanted;
  const Bytes rounded = round_down(most, step);
  return rounded >= needed ? rounded : most;
}

Fix limit_fix(const std::string& workload, Bytes needed, const LimitRoom& room) {
  const std::string gpu = room.gpu ? std::to_string(*room.gpu) : "";
  if (const auto limit = advised_limit(needed, room.grantable); limit)
    return {room.several_gpus && room.gpu ? command({"set", workload, "--gpu", gpu, "--limit", exact_size(*limit)})
                                          : command({"set", workload, "--limit", exact_size(*limit)}),
            Changes::kLimit};
  const std::string look = room.gpu ? command({"explain", "--gpu", gpu}) : command({"explain"});
  const std::string no_limit = fmt::format("no limit would allow more than {} now", format_size(room.grantable));
  if (!room.policy.empty() && room.of_claim)
    return {fmt::format("{}   (who holds what); ask for less, or claim more ({}: {})", look, no_limit, room.policy)};
  if (!room.policy.empty())
    return {fmt::format("{}   once root has raised this limit; or ask for less ({}: {})", command({"config", "reload"}),
                        no_limit, room.policy)};
  if (!room.tenant.name.empty()) {
    const Bytes more = room.tenant.limit + needed - std::min(needed, room.grantable);
    return {fmt::format("{}   ({}: tenant {} has a limit of {})",
                        command({"set", room.tenant.name, "--limit", exact_size(round_up(more, step_for(more)))}),
                        no_limit, room.tenant.name, format_size(room.tenant.limit)),
            Changes::kTenantLimit};
  }
  const Promise& promise = room.promise;
  if (promise.name.empty()) return {fmt::format("{}   (who holds what): {}", look, no_limit)};
  const Bytes used = std::min(promise.used, promise.guarantee), missing = needed - std::min(needed, room.grantable);
  const std::string holder = fmt::format("{}: {} is promised {} and uses {}", no_limit, promise.name,
                                         format_size(promise.guarantee), format_size(used));
  if (missing > promise.guarantee - used) return {fmt::format("{}   ({})", look, holder)};
  const Bytes kept = promise.guarantee - missing, rounded = round_down(kept, step_for(kept));
  const Bytes least = rounded >= used ? rounded : round_down(kept, kGranule);
  return {fmt::format("{}   ({})",
                      command({"set", promise.name, "--guarantee", least == Bytes{0} ? "none" : exact_size(least)}),
                      holder),
          Changes::kGuarantee};
}

}  // namespace ration::admission
