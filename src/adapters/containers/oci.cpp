#include "adapters/containers/oci.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "adapters/containers/cdi.hpp"
#include "base/whole_file.hpp"

namespace ration::adapters {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::size_t kGeneratedId = 64, kShortId = 12;  // digits; a shorter id is itself the name

constexpr int kMaxDepth = 64;  // the same bound as in with_edits()

/// Parses JSON. Returns a discarded value if the text is invalid, or nested so deeply that its tree would take many
/// times the text's size.
json parse(const std::string& text) {
  bool too_deep = false;
  json document = json::parse(
      text,
      [&](int depth, json::parse_event_t, const json&) {
        too_deep = too_deep || depth > kMaxDepth;
        return !too_deep;
      },
      false);
  return too_deep ? json(json::value_t::discarded) : document;
}

json read_document(const std::string& path) { return parse(read_whole(path).value_or("")); }

/// Returns the text under `key` in the object; empty if there is none.
std::string text_of(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

const json& part_of(const json& object, const char* key) {
  static const json none = json::object();
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : none;
}

void name_by_annotations(const json& notes, Container& container) {
  if (const std::string pod = text_of(notes, "io.kubernetes.cri.sandbox-name"); !pod.empty()) {
    container.engine = "kubernetes";
    container.name = fmt::format("{}/{}/{}", text_of(notes, "io.kubernetes.cri.sandbox-namespace"), pod,
                                 text_of(notes, "io.kubernetes.cri.container-name"));
    container.image = text_of(notes, "io.kubernetes.cri.image-name");
  } else if (const std::string name = text_of(notes, "nerdctl/name"); !name.empty()) {
    container.engine = "nerdctl";
    container.name = name;
  }
}

/// Names a container of Podman. Its bundle is STORAGE/…-containers/ID/userdata, beside a list of all containers of that
/// storage.
void name_by_podman(const std::string& bundle, const json& notes, Container& container) {
  if (text_of(notes, "io.container.manager") != "libpod") return;
  container.engine = "podman";
  const json all = read_document((fs::path(bundle).parent_path().parent_path() / "containers.json").string());
  for (const json& each : all.is_array() ? all : json::array()) {
    if (text_of(each, "id") != container.id) continue;
    if (const json& names = part_of(each, "names"); names.is_array() && !names.empty() && names[0].is_string())
      container.name = names[0];
    const json described = parse(text_of(each, "metadata"));
    container.image = text_of(described, "image-name");
  }
}

/// Names a container of Docker. Its /etc/hostname is DATA/containers/ID/hostname, beside Docker's description of it.
void name_by_docker(const json& mounts, Container& container) {
  for (const json& mount : mounts.is_array() ? mounts : json::array()) {
    if (text_of(mount, "destination") != "/etc/hostname") continue;
    const fs::path folder = fs::path(text_of(mount, "source")).parent_path();
    if (folder.filename() != container.id) return;
    const json known = read_document((folder / "config.v2.json").string());
    const std::string name = text_of(known, "Name");  // begins with a slash: `/web`
    if (name.size() < 2) return;
    container.engine = "docker";
    container.name = name.substr(1);
    container.image = text_of(part_of(known, "Config"), "Image");
  }
}

std::vector<std::string> texts_of(const json& list) {
  std::vector<std::string> texts;
  for (const json& each : list.is_array() ? list : json::array())
    if (each.is_string()) texts.push_back(each);
  return texts;
}

/// Returns the devices in the hooks that cdi::hook_of() wrote.
std::vector<std::string> devices_of(const json& hooks) {
  std::vector<std::string> devices;
  for (const json& hook : hooks.is_array() ? hooks : json::array()) {
    const std::vector<std::string> words = texts_of(part_of(hook, "args"));
    if (words.size() >= 4 && words[1] == cdi::kHookVerb && words[words.size() - 2] == "start")
      devices.push_back(words.back());
  }
  return devices;
}

}  // namespace

Result<Container> read_container(const std::string& state) {
  const auto wrong = [](const std::string& what) {
    return fail("E1701", fmt::format("the runtime did not describe the container to this hook: {}.", what),
                "Container runtimes run this verb. To start a container: ration help containers", 1);
  };
  const json said = parse(state);
  Container container;
  container.id = text_of(said, "id");
  const std::string bundle = text_of(said, "bundle");
  if (container.id.empty() || bundle.empty()) return wrong("standard input is not the state of a container");
  if (const json& pid = part_of(said, "pid"); pid.is_number_unsigned() && pid.get<std::uint64_t>() <= INT32_MAX)
    container.pid = pid.get<std::int32_t>();
  const std::string file = bundle + "/config.json";
  const auto content = read_whole(file);
  if (!content) return wrong(fmt::format("{} cannot be read: {}", file, content.error()));
  const json configured = parse(*content);
  const std::string root = text_of(part_of(configured, "root"), "path");
  if (root.empty()) return wrong(fmt::format("{} is not the configuration of a container", file));
  container.root = (fs::path(bundle) / root).lexically_normal().string();
  container.read_only_root = part_of(part_of(configured, "root"), "readonly") == true;
  const json& process = part_of(configured, "process");
  container.program = texts_of(part_of(process, "args"));
  container.devices = devices_of(part_of(part_of(configured, "hooks"), "createRuntime"));
  container.working_folder = text_of(process, "cwd");
  for (const std::string& variable : texts_of(part_of(process, "env")))
    if (variable.starts_with("PATH=")) container.path = variable.substr(5);
  container.engine = "container";
  container.name = container.id.size() < kGeneratedId ? container.id : container.id.substr(0, kShortId);
  const json& notes = part_of(configured, "annotations");
  name_by_annotations(notes, container);
  name_by_podman(bundle, notes, container);
  name_by_docker(part_of(configured, "mounts"), container);
  return container;
}

}  // namespace ration::adapters
