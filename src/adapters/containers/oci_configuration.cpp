#include "adapters/containers/oci_configuration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace ration::adapters {
namespace {

using nlohmann::ordered_json;

constexpr int kMaxDepth = 64;  // the specification nests 8 deep; annotations of other programs may nest deeper

tl::unexpected<Error> rejected(const std::string& why) {
  return fail("E1710", fmt::format("this configuration of a container cannot be put under a limit: {}.", why),
              "runc spec   writes a valid configuration: config.json of a bundle", 2);
}

bool has(const ordered_json& object, const char* key, bool (ordered_json::*is)() const noexcept) {
  return object.is_object() && object.contains(key) && (object.at(key).*is)();
}

bool has_own_mounts(const ordered_json& configuration) {
  if (!has(configuration, "linux", &ordered_json::is_object)) return false;
  const ordered_json& linux_part = configuration["linux"];
  if (!has(linux_part, "namespaces", &ordered_json::is_array)) return false;
  return std::any_of(linux_part["namespaces"].begin(), linux_part["namespaces"].end(), [](const ordered_json& space) {
    return space.is_object() && space.value("type", ordered_json()) == "mount" && !space.contains("path");
  });
}

/// Removes the elements that `is_old` accepts from the list under `key`, and appends `fresh`. Returns false if the
/// value under `key` is not a list.
template <class IsOld>
bool replace(ordered_json& object, const char* key, const ordered_json& fresh, const IsOld& is_old) {
  if (fresh.empty() && !object.contains(key)) return true;
  ordered_json& list = object[key];
  if (list.is_null()) list = ordered_json::array();
  if (!list.is_array()) return false;
  list.erase(std::remove_if(list.begin(), list.end(), is_old), list.end());
  list.insert(list.end(), fresh.begin(), fresh.end());
  return true;
}

/// Returns the mount's place as the kernel sees it: `/etc//x/` is `/etc/x`.
std::string place_of(const ordered_json& mount) {
  if (!has(mount, "destination", &ordered_json::is_string)) return {};
  const auto path = std::filesystem::path(mount["destination"].get<std::string>()).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).string();
}

bool replace_mounts(ordered_json& configuration, const cdi::Edits& edits) {
  auto mounts = ordered_json::array();
  for (const cdi::Mount& mount : edits.mounts)
    mounts.push_back(
        {{"destination", mount.to}, {"type", "bind"}, {"source", mount.from}, {"options", cdi::mount_options(mount)}});
  return replace(configuration, "mounts", mounts, [&](const ordered_json& there) {
    return std::any_of(edits.mounts.begin(), edits.mounts.end(),
                       [place = place_of(there)](const cdi::Mount& mount) { return mount.to == place; });
  });
}

bool replace_variables(ordered_json& process, const cdi::Edits& edits) {
  return replace(process, "env", cdi::assignments(edits.variables), [&](const ordered_json& there) {
    const std::string assignment = there.is_string() ? there.get<std::string>() : "";
    return edits.variables.contains(assignment.substr(0, assignment.find('=')));
  });
}

/// Replaces ration's hooks, including the hook that earlier versions wrote for the end of the container.
bool replace_hooks(ordered_json& configuration, const cdi::Device& device, const cdi::Edits& edits) {
  ordered_json& all = configuration["hooks"];
  if (all.is_null()) all = ordered_json::object();
  if (!all.is_object()) return false;
  const auto is_ours = [](const ordered_json& hook) {
    return has(hook, "args", &ordered_json::is_array) && hook["args"].size() > 1 && hook["args"][0] == "ration" &&
           hook["args"][1] == cdi::kHookVerb;
  };
  const cdi::Hook hook = cdi::hook_of(device, edits);
  const auto fresh = ordered_json::array({{{"path", hook.path}, {"args", hook.words}, {"env", hook.variables}}});
  return replace(all, "poststop", ordered_json::array(), is_ours) && replace(all, hook.when.c_str(), fresh, is_ours);
}

}  // namespace

Result<std::string> with_edits(const std::string& configuration, const cdi::Device& device, const cdi::Edits& edits) {
  bool too_deep = false;
  const auto look = [&](int depth, ordered_json::parse_event_t, const ordered_json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  ordered_json all = ordered_json::parse(configuration, look, false);
  if (too_deep) return rejected(fmt::format("it is nested more than {} levels deep", kMaxDepth));
  if (all.is_discarded()) return rejected("it is not JSON");
  if (!has(all, "ociVersion", &ordered_json::is_string)) return rejected("it has no ociVersion");
  if (!has(all, "root", &ordered_json::is_object) || !has(all["root"], "path", &ordered_json::is_string))
    return rejected("it has no root.path");
  if (!has(all, "process", &ordered_json::is_object)) return rejected("it has no process");
  if (!has_own_mounts(all)) return rejected("linux.namespaces has no mount namespace of its own");
  if (!replace_mounts(all, edits)) return rejected("mounts is not a list");
  if (!replace_variables(all["process"], edits)) return rejected("process.env is not a list");
  if (!replace_hooks(all, device, edits)) return rejected("hooks is not an object of lists");
  return all.dump(1, '\t') + "\n";  // indented as by runc and podman
}

}  // namespace ration::adapters
