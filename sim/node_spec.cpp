#include "node_spec.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "base/gpu_models.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"
#include "node.hpp"

namespace ration::sim {
namespace {

Model model_of(const GpuModel& known) {
  return {known.name,
          known.total,
          known.context,
          {},
          {},
          known.capability_major,
          known.capability_minor,
          known.multiprocessors,
          known.memory_info,
          {}};
}

/// A card of that name; one that nobody knows needs its size.
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
      count = std::atoi(part.c_str());  // A100-40:2, as ration plan takes it
      colon = next;
      continue;
    }
    const bool context = part.rfind("context=", 0) == 0;
    if (!set_size(context ? part.substr(8) : part, context ? model->context : model->total, problem)) return false;
    colon = next;
  }
  return add(*model, count, out, problem);
}

bool add_table(const toml::table& table, std::vector<Model>& out, std::string& problem) {
  const auto text = [&](const char* key) { return table[key].value<std::string>(); };
  for (const auto& [key, node] : table) {
    const std::string_view name = key.str();
    const bool number = name == "count", flag = name == "memory_info";
    const std::string_view texts[] = {"model", "memory", "context", "reserved", "orphaned", "name", "uuid"};
    if (!number && !flag && std::find(std::begin(texts), std::end(texts), name) == std::end(texts)) {
      problem = "unknown key '" + std::string(name) +
                "' (known: model, memory, context, reserved, orphaned, count, name, uuid, memory_info)";
    } else if (number ? !node.is_integer() : flag ? !node.is_boolean() : !node.is_string()) {
      problem = "'" + std::string(name) +
                (number ? "' is a number"
                 : flag ? "' is true or false"
                        : "' is a text in quotes");
    }
    if (!problem.empty()) return false;
  }
  auto model = model_named(text("model").value_or(""), text("memory").value_or(""));
  if (!model) {
    problem = "a device needs a model: " + gpu_model_names() + "; any other with its memory";
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
  model->memory_info = table["memory_info"].value_or(model->memory_info);
  const auto count = table["count"].value_or(std::int64_t{1});
  if (!model->uuid.empty() && (count != 1 || model->uuid.size() != 40 || model->uuid.rfind("GPU-", 0) != 0)) {
    problem = "a uuid looks like GPU-00112233-4455-6677-8899-aabbccddeeff and names one device";
    return false;
  }
  return add(*model, count, out, problem);
}

bool read_file(const std::string& path, std::string& driver, NodeSpec& out, std::string& problem) {
  try {
    const toml::table root = toml::parse_file(path);
    for (const auto& [key, node] : root) {
      if (key.str() == "device" && node.is_array_of_tables()) continue;
      if (key.str() == "driver" && node.is_string()) {
        driver = *node.value<std::string>();
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

bool read_node(const std::string& spec, NodeSpec& out, std::string& problem) {
  std::string driver;
  if (spec.ends_with(".toml") && spec.find("driver=") == std::string::npos)
    return read_file(spec, driver, out, problem) && find_driver(driver, out.driver, problem);
  for (std::size_t at = 0; at <= spec.size();) {
    const std::size_t comma = std::min(spec.find(',', at), spec.size());
    const std::string entry = spec.substr(at, comma - at);
    if (entry.rfind("driver=", 0) == 0)
      driver = entry.substr(7);
    else if (!add_entry(entry, out.devices, problem))
      return false;
    at = comma + 1;
  }
  if (out.devices.empty()) return problem = "it has no device", false;
  return find_driver(driver, out.driver, problem);
}

}  // namespace ration::sim
