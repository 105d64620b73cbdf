#include "node_spec.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "base/units.hpp"
#include "node.hpp"

namespace ration::sim {
namespace {

struct KnownModel {
  const char* key;
  const char* name;
  std::uint64_t gib, context_mib;
  int major, minor, multiprocessors;
};
// Totals as the cards are sold; the context's cost is of the order seen with recent drivers and can be given.
constexpr KnownModel kKnown[] = {{"T4", "Tesla T4", 16, 104, 7, 5, 40},
                                 {"A30", "NVIDIA A30", 24, 264, 8, 0, 56},
                                 {"A100-40", "NVIDIA A100-SXM4-40GB", 40, 424, 8, 0, 108},
                                 {"A100-80", "NVIDIA A100-SXM4-80GB", 80, 424, 8, 0, 108},
                                 {"H100", "NVIDIA H100 80GB HBM3", 80, 526, 9, 0, 132},
                                 {"H200", "NVIDIA H200", 141, 526, 9, 0, 132}};

std::optional<Model> model_named(const std::string& key) {
  for (const KnownModel& known : kKnown) {
    if (key != known.key) continue;
    return Model{known.name,
                 Bytes{known.gib << 30},
                 Bytes{known.context_mib << 20},
                 {},
                 {},
                 known.major,
                 known.minor,
                 known.multiprocessors,
                 {}};
  }
  return std::nullopt;
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

bool add(const Model& model, std::int64_t count, std::vector<Model>& out, std::string& problem) {
  if (model.total < kGranule || model.total.count() > std::uint64_t{kMaxGranules} << 21)
    problem = "a device has 2 MiB to 256 GiB";
  else if (count < 1 || static_cast<std::size_t>(count) + out.size() > kMaxDevices)
    problem = "a node has 1 to 16 devices";
  else
    out.insert(out.end(), static_cast<std::size_t>(count), model);
  return problem.empty();
}

bool add_entry(const std::string& entry, std::vector<Model>& out, std::string& problem) {
  std::int64_t count = 1;
  std::string text = entry;
  if (const auto star = text.find('*'); star != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + star + 1, end, count);
    if (parsed.ec != std::errc{} || parsed.ptr != end) {
      problem = "'" + entry + "' has no count";
      return false;
    }
    text.resize(star);
  }
  std::size_t colon = text.find(':');
  auto model = model_named(text.substr(0, colon));
  if (!model) {
    problem = "there is no model '" + text.substr(0, colon) + "'";
    return false;
  }
  while (colon != std::string::npos) {
    const std::size_t next = text.find(':', colon + 1);
    const std::string part = text.substr(colon + 1, next == std::string::npos ? next : next - colon - 1);
    const bool context = part.rfind("context=", 0) == 0;
    if (!set_size(context ? part.substr(8) : part, context ? model->context : model->total, problem)) return false;
    colon = next;
  }
  return add(*model, count, out, problem);
}

/// `615` or `615.71`, the numbers that NVIDIA gives its drivers.
bool set_driver(const std::string& text, std::string& out, std::string& problem) {
  const auto digits = [](std::string_view part) {
    return !part.empty() && part.size() < 6 && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const std::string_view all = text;
  const auto point = all.find('.');
  if (!digits(all.substr(0, point)) || (point != std::string_view::npos && !digits(all.substr(point + 1))))
    problem = "'" + text + "' is no release of a driver; one looks like 615 or 615.71";
  else
    out = text;
  return problem.empty();
}

bool add_table(const toml::table& table, std::vector<Model>& out, std::string& problem) {
  const auto text = [&](const char* key) { return table[key].value<std::string>(); };
  for (const auto& [key, node] : table) {
    const std::string_view name = key.str();
    const bool number = name == "count";
    const std::string_view texts[] = {"model", "memory", "context", "reserved", "orphaned", "name", "uuid"};
    if (!number && std::find(std::begin(texts), std::end(texts), name) == std::end(texts)) {
      problem = "unknown key '" + std::string(name) +
                "' (known: model, memory, context, reserved, orphaned, count, name, uuid)";
    } else if (number ? !node.is_integer() : !node.is_string()) {
      problem = "'" + std::string(name) + (number ? "' is a number" : "' is a text in quotes");
    }
    if (!problem.empty()) return false;
  }
  auto model = model_named(text("model").value_or(""));
  if (!model) {
    problem = "a device needs a model: T4, A30, A100-40, A100-80, H100 or H200";
    return false;
  }
  if (const auto size = text("memory"); size && !set_size(*size, model->total, problem)) return false;
  if (const auto size = text("context"); size && !set_size(*size, model->context, problem)) return false;
  if (const auto size = text("reserved"); size && !set_size(*size, model->reserved, problem)) return false;
  if (const auto size = text("orphaned"); size && !set_size(*size, model->orphaned, problem)) return false;
  if (model->reserved + model->orphaned > model->total) {
    problem = "more is reserved and orphaned than the device has";
    return false;
  }
  model->name = text("name").value_or(model->name);
  model->uuid = text("uuid").value_or("");
  const auto count = table["count"].value_or(std::int64_t{1});
  if (!model->uuid.empty() && (count != 1 || model->uuid.size() != 40 || model->uuid.rfind("GPU-", 0) != 0)) {
    problem = "a uuid looks like GPU-00112233-4455-6677-8899-aabbccddeeff and names one device";
    return false;
  }
  return add(*model, count, out, problem);
}

bool read_file(const std::string& path, NodeSpec& out, std::string& problem) {
  try {
    const toml::table root = toml::parse_file(path);
    for (const auto& [key, node] : root) {
      if (key.str() == "device" && node.is_array_of_tables()) continue;
      if (key.str() == "driver" && node.is_string()) {
        if (!set_driver(*node.value<std::string>(), out.driver, problem)) return false;
        continue;
      }
      problem = key.str() == "driver" ? "'driver' is a text in quotes"
                                      : "unknown key '" + std::string(key.str()) + "' (known: driver, [[device]])";
      return false;
    }
    if (const auto* devices = root["device"].as_array(); devices != nullptr) {
      for (const auto& device : *devices) {
        if (!add_table(*device.as_table(), out.devices, problem)) return false;
      }
    }
  } catch (const toml::parse_error& error) {
    problem = error.description();
    return false;
  }
  if (out.devices.empty()) problem = "it has no [[device]]";
  return problem.empty();
}

}  // namespace

int NodeSpec::driver_release() const { return std::atoi(driver.c_str()); }
int NodeSpec::cuda_version() const { return driver_release() >= kReleaseWithGroupLimits ? 13040 : 13000; }

bool read_node(const std::string& spec, NodeSpec& out, std::string& problem) {
  if (spec.ends_with(".toml")) return read_file(spec, out, problem);
  for (std::size_t at = 0; at <= spec.size();) {
    const std::size_t comma = std::min(spec.find(',', at), spec.size());
    const std::string entry = spec.substr(at, comma - at);
    const bool good = entry.rfind("driver=", 0) == 0 ? set_driver(entry.substr(7), out.driver, problem)
                                                     : add_entry(entry, out.devices, problem);
    if (!good) return false;
    at = comma + 1;
  }
  if (out.devices.empty()) problem = "it has no device";
  return problem.empty();
}

}  // namespace ration::sim
