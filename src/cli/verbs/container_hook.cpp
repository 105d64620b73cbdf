// `ration container-hook start DEVICE`: puts a container under its limit. Container runtimes run it before the
// container's program starts, as ration's CDI specifications tell them. Specifications of
// earlier versions also run `stop` after the program has ended.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "adapters/containers/container_files.hpp"
#include "adapters/containers/image.hpp"
#include "adapters/containers/oci.hpp"
#include "base/labels.hpp"
#include "base/printable.hpp"
#include "base/strings.hpp"
#include "base/utf8.hpp"
#include "base/whole_file.hpp"
#include "book/container_books.hpp"
#include "book/workload_book.hpp"
#include "cli/start/container_edits.hpp"
#include "cli/start/workload_start.hpp"
#include "cli/verbs/verbs.hpp"
#include "node/promises/container_claims.hpp"

namespace ration::cli {
namespace {

constexpr std::size_t kShortId = 12;

std::string id_label(const adapters::Container& container) {
  return label_of("container_id", container.id.substr(0, kShortId));
}

bool has_label(const std::string& labels, const std::string& wanted) {
  return ("," + labels + ",").find("," + wanted + ",") != std::string::npos;
}

/// Returns the container's name as the name of a workload, followed by the beginning of the container's id if the name
/// is long, or if a running workload already has the name.
std::string free_name(const std::vector<book::StoredBook>& books, const adapters::Container& container) {
  constexpr std::size_t kMaxName = 48;
  std::string name = printable(container.name, '_');
  for (char& letter : name)
    if (static_cast<unsigned char>(letter) <= 0x20 || letter == '/' || letter == ',') letter = '.';
  const bool taken = std::any_of(books.begin(), books.end(),
                                 [&](const book::StoredBook& book) { return book.live && book.contents.name == name; });
  if (!taken && name.size() <= kMaxName) return name;
  return std::string(shortened(name, kMaxName)) + "-" + container.id.substr(0, 6);
}

/// Returns the ids of a container's claims if all its devices are claims. The hook of the first claim makes the book
/// for all of them.
std::vector<std::string> claims_of(const adapters::Container& container) {
  std::vector<std::string> ids;
  for (const std::string& device : container.devices) {
    const auto parts = split_once(device, '=');
    if (!parts || parts->first != kClaimDevice) return {};
    ids.emplace_back(parts->second);
  }
  return ids;
}

/// Returns the sums of the limits and guarantees that were granted to the claims. Fails with E1714, and other errors of
/// the daemon.
Result<admission::PlanRequest> request_of_claims(NodeClient& daemon, const std::vector<std::string>& ids) {
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> granted;  // limits and guarantees by UUID
  admission::PlanRequest request;
  for (const std::string& id : ids) {
    RATION_TRY(const auto claim, daemon.get("/api/v1/claims/" + id));
    for (const auto& device : claim.at("devices")) {
      auto& [limit, guarantee] = granted[device.at("uuid")];
      limit += device.at("limit_bytes").get<std::uint64_t>();
      guarantee += device.at("guarantee_bytes").get<std::uint64_t>();
    }
    request.tenant = claim.at("tenant");
    if (claim.at("on_deny") != "fail") request.on_deny = claim.at("on_deny");
  }
  for (const auto& [uuid, sizes] : granted) {
    request.gpu += (request.gpu.empty() ? "" : ",") + uuid;
    request.of_device[uuid] = {fmt::format("{}B", sizes.first), fmt::format("{}B", sizes.second)};
  }
  return request;
}

/// Returns the request that a device stands for: `tenant=nlp`, `gpu=0.2` or `limit=4GiB-gpu0`. Fails with E1706 for any
/// other.
Result<admission::PlanRequest> request_of(const std::string& device, const machine::Machine& machine) {
  admission::PlanRequest request;
  const std::size_t equals = std::min(device.find('='), device.size());
  const std::string kind = device.substr(0, equals), name = device.substr(std::min(equals + 1, device.size()));
  std::string every;  // all GPUs; the container's visible devices choose among them
  for (const machine::Device& each : machine.devices)
    every += fmt::format("{}{}", every.empty() ? "" : ",", each.index);
  if (kind == kSliceDevice) {
    request.slice = name;
  } else if (kind == kTenantDevice) {
    request.tenant = name;
    request.gpu = every;
  } else if (kind == kLimitDevice) {
    const std::size_t gpu = name.rfind(kOnGpu);
    request.limit = name.substr(0, gpu);
    request.gpu = gpu == std::string::npos ? every : name.substr(gpu + std::string_view(kOnGpu).size());
  }
  if (name.empty() || (request.slice.empty() && request.tenant.empty() && request.limit.empty()))
    return fail("E1706", fmt::format("there is no device ration.sh/{}.", device), "ration help containers", 2);
  return request;
}

/// Returns the labels of a container. The labels that the daemon and the hooks need come first, since the book may not
/// have room for all.
std::vector<std::string> labels_of(const adapters::Container& container, const std::vector<std::string>& claims) {
  std::vector<std::string> wanted;
  if (!claims.empty()) {
    const std::string between(1, node::ContainerClaims::kSeparator);
    wanted.push_back(label_of(node::ContainerClaims::kLabel, fmt::format("{}", fmt::join(claims, between))));
  }
  wanted.push_back(id_label(container));
  wanted.push_back(label_of("engine", container.engine));
  wanted.push_back(label_of("container", container.name));
  if (!container.image.empty()) wanted.push_back(label_of("image", container.image));
  return fitting_labels(std::move(wanted));
}

/// Returns true if root here is root of the machine; in a rootless engine's user namespace, root is an ordinary user.
bool is_machine_root() {
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t inside = 1, outside = 1;
  return map >> inside >> outside && inside == 0 && outside == 0;
}

Result<int> start(const Session& session, const std::string& device, const adapters::Container& container) {
  if (!is_machine_root())
    return fail("E1703",
                fmt::format("container {} is rootless, and the machine's daemon gives devices only to containers of "
                            "root.",
                            container.name),
                "ration inject podman --without-cdi --limit 4GiB -- run IMAGE", 1);
  if (const std::string why = adapters::why_not_held(container); !why.empty())
    return fail("E1702", fmt::format("the limit could not be enforced on container {}: {}.", container.name, why),
                "Use an image with glibc 2.17 or newer: most images except alpine and busybox.", 6);
  RATION_TRY(const auto machine, session.machine());
  RATION_TRY(const auto store, session.store());
  RATION_TRY(auto daemon, NodeClient::require(session));
  const std::vector<std::string> claims = claims_of(container);
  RATION_TRY(auto request, claims.empty() ? request_of(device, machine) : request_of_claims(daemon, claims));
  const auto first = identity_of(container.pid);
  if (!first)
    return fail("E1701", fmt::format("container {} has ended already.", container.name), "Start it again.", 1);
  RunOptions options;
  options.request = std::move(request);
  const auto books = store.list();
  const bool has_one = std::any_of(books.begin(), books.end(), [&](const book::StoredBook& book) {
    return book.live && book.contents.creator.same_as(*first);
  });
  if (has_one && !claims.empty()) return 0;  // the hook of the first claim made the book for all of them
  if (has_one)                               // the engine would mount one book over the other
    return fail("E1706", fmt::format("container {} has two of ration's devices.", container.name),
                "Give the container only one of these devices.", 2);
  options.request.name = free_name(books, container);
  options.request.labels = labels_of(container, claims);
  options.engine = container.engine;
  options.program = container.program;
  RATION_TRY(const auto guards, container_guards(store));
  std::optional<NodeClient> governor(std::move(daemon));
  const auto bring = [&](const std::string& book) {
    return adapters::mount_in(container.pid, container.root, container.read_only_root, book, book::kContainerBook,
                              guards);
  };
  RATION_TRY(const auto started, start_workload(session, options, store, "", governor, first, bring));
  if (const auto used = split_once(device, '='); used && used->first == kLimitDevice)
    if (const auto folder = specification_folder())
      adapters::cdi::note_use(*folder, specification_file({kLimitDevice, std::string(used->second)}));
  return 0;
}

Result<int> stop(const Session& session, const adapters::Container& container) {
  RATION_TRY(const auto store, session.store());
  for (const book::StoredBook& stored : store.list()) {
    if (has_label(stored.contents.labels, id_label(container)) &&
        liveness(stored.contents.creator) !=
            Liveness::kAlive)  // a container whose process lives has not ended, whatever the runtime says
      book::retire(stored.path);
  }
  return 0;
}

}  // namespace

Result<int> container_hook(const Session& session, const ContainerHookOptions& options) {
  const auto state = read_whole(STDIN_FILENO);
  if (!state)
    return fail("E1701", fmt::format("standard input is not the state of a container: {}.", state.error()),
                "Container runtimes run this verb. To start a container: ration help containers", 1);
  RATION_TRY(const auto container, adapters::read_container(*state));
  return options.action == "start" ? start(session, options.device, container) : stop(session, container);
}

}  // namespace ration::cli
