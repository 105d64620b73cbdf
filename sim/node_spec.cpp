#include "node_spec.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "base/gpu_models.hpp"
#include "base/printable.hpp"
#include "base/strings.hpp"
#include "base/toml_document.hpp"
#include "base/units.hpp"
#include "node.hpp"

namespace ration::sim {
namespace {

/// The separator in the name of an instance: NVIDIA A100-SXM4-40GB MIG 3g.20gb.
constexpr std::string_view kMigInName = " MIG ";

Model model_of(const GpuModel& known) {
  return {known.name,
          known.total,
          known.context,
          false,
          {},
          {},
          known.capability_major,
          known.capability_minor,
          known.multiprocessors,
          known.memory_info,
          {},
          0,
          0,
          {},
          true,
          -1,
          0};
}

/// Returns the GPU with that name. An unlisted one needs a size.
std::optional<Model> model_named(const std::string& key, const std::string& size) {
  if (const auto known = find_gpu_model(key)) return model_of(*known);
  const auto total = parse_size(size, Bytes{0}, Bytes{0});
  if (key.empty() || key.size() > 59 || !is_printable(key) || !total) return std::nullopt;
  return model_of(unknown_gpu_model(key, *total));
}

bool set_size(const std::string& text, Bytes& out, std::string& problem) {
  const auto size = parse_size(text, kUnlimited, kUnlimited);
  if (!size)
    problem = size.error().what;
  else if (*size >= kUnlimited || text.find('%') != std::string::npos)
    problem = "'" + text + "' is not the size of a device";
  else
    out = *size;
  return problem.empty();
}

/// Reads a number and the unit after it, such as `3g.` of `3g.20gb`, and removes them from the text.
bool read_number(std::string_view& text, std::string_view unit, std::int64_t& out) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out);
  if (parsed.ec != std::errc{} || out < 1) return false;
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
  if (text.substr(0, unit.size()) != unit) return false;
  text.remove_prefix(unit.size());
  return true;
}

/// Divides a GPU in MIG mode into instances. A GPU has seven compute slices. No instance has more memory than its
/// profile says (MIG user guide, supported profiles), and each has a little less, like the GPU itself.
bool divide(const Model& card, const std::vector<std::string>& profiles, std::vector<Model>& out,
            std::string& problem) {
  constexpr std::int64_t kSlices = 7;
  constexpr std::uint64_t kGiB = 1U << 30;
  const std::uint64_t sold = (card.total.count() + kGiB - 1) / kGiB;
  std::int64_t slices = 0, memory = 0;
  for (const std::string& profile : profiles) {
    std::int64_t computes = 0, gigabytes = 0;
    std::string_view rest = profile;
    if (!read_number(rest, "g.", computes) || !read_number(rest, "gb", gigabytes) || !rest.empty()) {
      problem = "'" + profile + "' is not a profile of a MIG instance, such as 3g.20gb";
      return false;
    }
    slices += std::min(computes, kSlices + 1), memory += std::min<std::int64_t>(gigabytes, kMaxGranules);
    Model instance = card;
    instance.name += std::string(kMigInName) + profile;
    instance.profile = profile;
    instance.instance = static_cast<int>(out.size());
    instance.total = round_down(Bytes{card.total.count() / sold * static_cast<std::uint64_t>(gigabytes)}, kGranule);
    instance.multiprocessors = std::max(1, card.multiprocessors / 7) * static_cast<int>(computes);
    out.push_back(std::move(instance));
  }
  if (card.capability_major < 8)
    problem = card.name + " has no MIG mode";
  else if (slices > kSlices || memory > static_cast<std::int64_t>(sold))
    problem = "the card has seven slices and " + std::to_string(sold) + " GB for its instances";
  return problem.empty();
}

bool add(const Model& model, std::int64_t count, const std::vector<std::string>& profiles, std::vector<Model>& out,
         std::string& problem) {
  if (model.total < kGranule || model.total.count() > std::uint64_t{kMaxGranules} << 21) {
    problem = "a device has 2 MiB to 256 GiB";
    return false;
  }
  std::vector<Model> parts;
  if (profiles.empty())
    parts.push_back(model);
  else if (!divide(model, profiles, parts, problem))
    return false;
  if (count < 1 || count > kMaxDevices || static_cast<std::size_t>(count) * parts.size() + out.size() > kMaxDevices)
    problem = "a node has 1 to 16 devices";
  for (; problem.empty() && count > 0; --count) {
    const int card = out.empty() ? 0 : out.back().card + 1;
    for (Model& part : parts) part.card = card;
    out.insert(out.end(), parts.begin(), parts.end());
  }
  return problem.empty();
}

/// Reads the count of `T4:16GiB*2` and removes it. Returns false if it is not a number.
bool take_count(std::string& text, std::int64_t& count, std::string& problem) {
  count = 1;
  const auto star = text.find('*');
  if (star == std::string::npos) return true;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + star + 1, end, count);
  if (parsed.ec != std::errc{} || parsed.ptr != end) {
    problem = "'" + text + "' has no count";
    return false;
  }
  text.resize(star);
  return true;
}

/// Reads a list of profiles, such as `3g.20gb*2+1g.5gb`.
bool read_profiles(const std::string& list, std::vector<std::string>& out, std::string& problem) {
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t plus = std::min(list.find('+', at), list.size());
    std::string profile = list.substr(at, plus - at);
    std::int64_t count = 0;
    if (!take_count(profile, count, problem)) return false;
    out.insert(out.end(), static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, kMaxDevices)), profile);
    at = plus + 1;
  }
  return true;
}

/// The largest count without a star. A larger number is more likely a size without its unit, as in `T4:16`.
constexpr std::int64_t kMostWithoutStar = 8;

bool add_entry(const std::string& entry, std::vector<Model>& out, std::string& problem) {
  constexpr std::string_view kMig = ":mig=";
  std::int64_t count = 1;
  std::vector<std::string> profiles;
  const std::size_t mig = entry.find(kMig);
  if (mig != std::string::npos && !read_profiles(entry.substr(mig + kMig.size()), profiles, problem)) return false;
  std::string text = entry.substr(0, mig);
  if (!take_count(text, count, problem)) return false;
  std::size_t colon = text.find(':');
  const auto part_at = [&](std::size_t at) {
    const std::size_t next = at == std::string::npos ? at : text.find(':', at + 1);
    return at == std::string::npos ? std::string()
                                   : text.substr(at + 1, next == std::string::npos ? next : next - at - 1);
  };
  auto model = model_named(text.substr(0, colon), part_at(colon));
  if (!model) {
    problem = "there is no model '" + text.substr(0, colon) + "' (known: " + gpu_model_names() +
              "; any other with its size: NAME:24GiB)";
    return false;
  }
  while (colon != std::string::npos) {
    const std::size_t next = text.find(':', colon + 1);
    const std::string part = part_at(colon);
    if (!part.empty() && part.size() < 4 && part.find_first_not_of("0123456789") == std::string::npos && count == 1) {
      count = std::atoi(part.c_str());  // A100-40:2, the form of ration whatif
      if (count > kMostWithoutStar) {
        const std::string name = text.substr(0, text.find(':'));
        problem =
            "'" + text + "' may mean devices or GiB; write " + name + "*" + part + ", or " + name + ":" + part + "GiB";
        return false;
      }
      colon = next;
      continue;
    }
    const bool context = part.rfind("context=", 0) == 0;
    if (!set_size(context ? part.substr(8) : part, context ? model->context : model->total, problem)) return false;
    model->context_given = model->context_given || context;
    colon = next;
  }
  return add(*model, count, profiles, out, problem);
}

constexpr std::int64_t kMaxNumaNodes = 1024;  // the most that Linux is built for on most machines

/// A key of a [[device]], and the words for the kind of its value.
struct DeviceKey {
  std::string_view name;
  TomlValue::Kind kind;
  const char* meant;
};
constexpr const char* kText = "' is a text in quotes";
constexpr DeviceKey kDeviceKeys[] = {
    {"model", TomlValue::Kind::kText, kText},
    {"memory", TomlValue::Kind::kText, kText},
    {"context", TomlValue::Kind::kText, kText},
    {"reserved", TomlValue::Kind::kText, kText},
    {"orphaned", TomlValue::Kind::kText, kText},
    {"count", TomlValue::Kind::kWhole, "' is a number"},
    {"name", TomlValue::Kind::kText, kText},
    {"uuid", TomlValue::Kind::kText, kText},
    {"persistence", TomlValue::Kind::kText, kText},
    {"utilisation", TomlValue::Kind::kWhole, "' is a number"},
    {"numa", TomlValue::Kind::kWhole, "' is the number of a NUMA node"},
    {"memory_info", TomlValue::Kind::kFlag, "' is true or false"},
    {"mig", TomlValue::Kind::kList, "' is a list of profiles: [\"3g.20gb\"]"},
};

bool check_keys(const TomlValue& table, std::string& problem) {
  for (const TomlValue& value : table.items) {
    const auto* const key = std::find_if(std::begin(kDeviceKeys), std::end(kDeviceKeys),
                                         [&](const DeviceKey& each) { return each.name == value.name; });
    if (key == std::end(kDeviceKeys)) {
      std::string known;
      for (const DeviceKey& each : kDeviceKeys) known += (known.empty() ? "" : ", ") + std::string(each.name);
      problem = "unknown key '" + value.name + "' (known: " + known + ")";
    } else if (value.kind != key->kind) {
      problem = "'" + value.name + key->meant;
    }
    if (!problem.empty()) return false;
  }
  return true;
}

bool add_table(const TomlValue& table, std::vector<Model>& out, std::string& problem) {
  if (!check_keys(table, problem)) return false;
  const auto text = [&](const char* key) {
    const TomlValue* const value = table.find(key);
    return value != nullptr ? std::optional(value->text) : std::nullopt;
  };
  const auto number = [&](const char* key, std::int64_t otherwise) {
    const auto digits = text(key);
    if (digits) std::from_chars(digits->data(), digits->data() + digits->size(), otherwise);
    return otherwise;
  };
  auto model = model_named(text("model").value_or(""), text("memory").value_or(""));
  if (!model) {
    problem = "a device needs a model: " + gpu_model_names() + "; any other with its memory";
    return false;
  }
  if (const auto size = text("memory"); size && !set_size(*size, model->total, problem)) return false;
  if (const auto size = text("context"); size && !set_size(*size, model->context, problem)) return false;
  model->context_given = text("context").has_value();
  if (const auto size = text("reserved"); size && !set_size(*size, model->reserved, problem)) return false;
  if (const auto size = text("orphaned"); size && !set_size(*size, model->orphaned, problem)) return false;
  if (model->reserved + model->orphaned > model->total) {
    problem = "more is reserved and orphaned than the device has";
    return false;
  }
  const std::string persistence = text("persistence").value_or("on");
  const std::int64_t utilisation = number("utilisation", 0);
  if ((persistence != "on" && persistence != "off") || utilisation < 0 || utilisation > 100) {
    problem = "persistence is \"on\" or \"off\", utilisation 0 to 100";
    return false;
  }
  const std::int64_t numa = number("numa", -1);
  if (numa >= kMaxNumaNodes || (text("numa") && numa < 0)) {
    problem = "numa is the number of a NUMA node, 0 to " + std::to_string(kMaxNumaNodes - 1);
    return false;
  }
  model->numa = static_cast<int>(numa);
  model->persistence = persistence == "on";
  model->utilisation = static_cast<unsigned>(utilisation);
  model->name = text("name").value_or(model->name);
  model->uuid = text("uuid").value_or("");
  if (const auto flag = text("memory_info")) model->memory_info = flag == "true";
  const std::int64_t count = number("count", 1);
  if (!model->uuid.empty() && (count != 1 || model->uuid.size() != 40 || model->uuid.rfind("GPU-", 0) != 0)) {
    problem = "a uuid looks like GPU-00112233-4455-6677-8899-aabbccddeeff and names one device";
    return false;
  }
  std::vector<std::string> profiles;
  if (const TomlValue* const list = table.find("mig"); list != nullptr)
    for (const TomlValue& profile : list->items) profiles.push_back(profile.text);
  return add(*model, count, profiles, out, problem);
}

bool read_file(const std::string& path, std::string& driver, NodeSpec& out, std::string& problem) {
  TomlValue root;
  if (!read_toml_file(path, root, problem)) return false;
  for (const TomlValue& value : root.items) {
    if (value.name == "device" && value.kind == TomlValue::Kind::kList) {
      for (const TomlValue& device : value.items)
        if (!add_table(device, out.devices, problem)) return false;
    } else if (value.name == "driver" && value.kind == TomlValue::Kind::kText) {
      driver = value.text;
    } else if (value.name == "device_nodes" && value.kind == TomlValue::Kind::kText) {
      out.device_nodes = value.text;
    } else {
      problem = value.name == "driver" || value.name == "device_nodes"
                    ? "'" + value.name + kText
                    : "unknown key '" + value.name + "' (known: driver, device_nodes, [[device]])";
      return false;
    }
  }
  if (out.devices.empty()) problem = "it has no [[device]]";
  return problem.empty();
}

bool set_driver(const std::string& driver, NodeSpec& out, std::string& problem) {
  if (!find_driver(driver, out.driver, problem)) return false;
  for (Model& model : out.devices) {
    const auto measured = out.driver.contexts.find(card_name(model));
    if (!model.context_given && measured != out.driver.contexts.end()) model.context = measured->second;
  }
  return true;
}

}  // namespace

std::string card_name(const Model& model) {
  return model.profile.empty() ? model.name
                               : model.name.substr(0, model.name.size() - kMigInName.size() - model.profile.size());
}

bool read_node(const std::string& spec, NodeSpec& out, std::string& problem) {
  std::string driver;
  if (spec.ends_with(".toml") && spec.find("driver=") == std::string::npos)
    return read_file(spec, driver, out, problem) && set_driver(driver, out, problem);
  for (const std::string_view part : split(spec, ',')) {
    const std::string entry(part);
    if (entry.rfind("driver=", 0) == 0)
      driver = entry.substr(7);
    else if (!add_entry(entry, out.devices, problem))
      return false;
  }
  if (out.devices.empty()) return problem = "it has no device", false;
  return set_driver(driver, out, problem);
}

}  // namespace ration::sim
