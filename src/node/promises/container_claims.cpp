#include "node/promises/container_claims.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/labels.hpp"
#include "base/say.hpp"
#include "base/strings.hpp"
#include "node/state/whole_number.hpp"

namespace ration::node {
namespace {

using nlohmann::json;

json claim_json(const ContainerClaim& claim) {
  json devices = json::array();
  for (const ClaimedDevice& device : claim.devices)
    devices.push_back(
        {{"uuid", device.uuid}, {"limit", device.limit.count()}, {"guarantee", device.guarantee.count()}});
  return {{"id", claim.id},
          {"name", claim.name},
          {"tenant", claim.tenant},
          {"on_deny", claim.on_deny},
          {"devices", std::move(devices)}};
}

ContainerClaim claim_from(const json& row) {
  ContainerClaim claim{row.at("id"), row.at("name"), row.at("tenant"), row.at("on_deny"), {}};
  if (!ContainerClaims::is_id(claim.id)) throw std::invalid_argument("it has a claim without an id");
  for (const json& device : row.at("devices"))
    claim.devices.push_back({device.at("uuid"), Bytes{whole_number<std::uint64_t>(device.at("limit"))},
                             Bytes{whole_number<std::uint64_t>(device.at("guarantee"))}});
  return claim;
}

}  // namespace

ContainerClaims::ContainerClaims(std::string file) : file_(std::move(file)) {
  file_.read(fixed<"state.claims_lost">(), [this](const json& document) {
    if (!document.is_array()) throw std::invalid_argument("it is not a list");
    std::map<std::string, ContainerClaim> read;
    for (const json& row : document) {
      ContainerClaim claim = claim_from(row);
      read[claim.id] = std::move(claim);
    }
    claims_ = std::move(read);
  });
}

const ClaimedDevice* ContainerClaim::share_of(const std::string& uuid) const {
  for (const ClaimedDevice& device : devices)
    if (device.uuid == uuid) return &device;
  return nullptr;
}

bool ContainerClaims::is_id(const std::string& id) {
  const auto is_letter = [](unsigned char letter) { return letter < 0x80 && std::isalnum(letter) != 0; };
  return !id.empty() && id.size() <= kMaxId && is_letter(id.front()) && is_letter(id.back()) &&
         std::all_of(id.begin(), id.end(),
                     [&](char letter) { return is_letter(letter) || letter == '_' || letter == '-' || letter == '.'; });
}

Result<void> ContainerClaims::put(ContainerClaim claim) {
  if (const ContainerClaim* known = find(claim.id); known != nullptr) {
    if (*known == claim) return {};
    return fail("E1713", fmt::format("claim {} ({}) was prepared with other content.", known->name, known->id),
                "Give it back first: DELETE /api/v1/claims/" + claim.id, 4);
  }
  if (claims_.size() >= kMaxClaims)
    return fail("E1529", fmt::format("there are {} claims already.", claims_.size()),
                "GET /api/v1/claims lists them; DELETE /api/v1/claims/ID gives back a claim that no pod has", 4);
  auto fresh = claims_;
  fresh[claim.id] = std::move(claim);
  return save(std::move(fresh));
}

Result<void> ContainerClaims::remove(const std::string& id) {
  auto fresh = claims_;
  if (fresh.erase(id) == 0) return {};
  return save(std::move(fresh));
}

const ContainerClaim* ContainerClaims::find(const std::string& id) const {
  const auto found = claims_.find(id);
  return found == claims_.end() ? nullptr : &found->second;
}

Result<void> ContainerClaims::save(std::map<std::string, ContainerClaim> fresh) {
  json rows = json::array();
  for (const auto& [id, claim] : fresh) rows.push_back(claim_json(claim));
  RATION_TRY(file_.write(rows));
  claims_ = std::move(fresh);
  return {};
}

std::vector<const ContainerClaim*> ContainerClaims::of_workload(std::uint32_t owner, const std::string& labels,
                                                                const std::string& uuid) const {
  std::vector<const ContainerClaim*> claims;
  if (owner != ::getuid()) return claims;
  for (const std::string& id : claim_ids(labels))
    if (const ContainerClaim* claim = find(id); claim != nullptr && claim->share_of(uuid) != nullptr)
      claims.push_back(claim);
  return claims;
}

std::vector<std::string> claim_ids(const std::string& labels) {
  const auto known = parse_labels(labels);
  const auto found = known.find(ContainerClaims::kLabel);
  std::vector<std::string> ids;
  if (found != known.end())
    for (const std::string_view id : split(found->second, ContainerClaims::kSeparator)) ids.emplace_back(id);
  return ids;
}

}  // namespace ration::node
