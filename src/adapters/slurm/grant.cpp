#include "adapters/slurm/grant.hpp"

#include <fmt/format.h>

#include "base/printable.hpp"
#include "base/strings.hpp"

namespace ration::adapters::slurm {
namespace {

/// Splits the text at commas outside parentheses.
std::vector<std::string_view> resources_in(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const char letter = at < text.size() ? text[at] : ',';
    depth += (letter == '(') - (letter == ')');
    if (letter != ',' || (depth != 0 && at < text.size())) continue;
    if (at > begin) parts.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  return parts;
}

constexpr std::uint64_t kMaxMib = std::uint64_t{1} << 40;

}  // namespace

Result<std::vector<Share>> shares_in(const std::string& gres) {
  const auto not_understood = [&] {
    return fail("E1720", fmt::format("Slurm's grant '{}' is not an amount in MiB of one GPU.", printable(gres)),
                "ration snippet slurm --node NAME   prints the lines of gres.conf with which Slurm grants MiB", 1);
  };
  std::vector<Share> shares;
  for (const std::string_view resource : resources_in(gres)) {
    if (!resource.starts_with("shard:")) continue;
    const std::size_t open = resource.find('(');
    const std::string_view counted = resource.substr(0, open);
    const auto mib = parse_number<std::uint64_t>(counted.substr(counted.rfind(':') + 1));
    if (!mib || *mib > kMaxMib) return not_understood();
    if (*mib == 0) continue;
    if (open == std::string_view::npos || resource.back() != ')') return not_understood();
    const std::string_view where = resource.substr(open + 1, resource.size() - open - 2);
    if (where.starts_with("IDX:")) {
      const auto gpu = parse_number<std::uint64_t>(where.substr(4));
      if (!gpu || *gpu > 1023) return not_understood();
      shares.push_back({static_cast<int>(*gpu), Bytes{*mib << 20}});
      continue;
    }
    int gpu = 0;
    for (const std::string_view each : ration::split(where, ',')) {  // one amount for each GPU, in order
      const auto taken = parse_number<std::uint64_t>(each.substr(0, each.find('/')));
      if (!taken || *taken > kMaxMib) return not_understood();
      if (*taken > 0) shares.push_back({gpu, Bytes{*taken << 20}});
      ++gpu;
    }
  }
  return shares;
}

}  // namespace ration::adapters::slurm
