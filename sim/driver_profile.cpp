#include "driver_profile.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "base/strings.hpp"
#include "base/toml_document.hpp"
#include "base/units.hpp"
#include "base/whole_file.hpp"

namespace ration::sim {
namespace {

struct BuiltIn {
  std::string_view name, text;
};
// The profiles, generated from sim/drivers/*.toml in the order of their names.
constexpr BuiltIn kBuiltIn[] = {
#include "driver_profiles.inc"
};

/// The default release of a simulated node.
constexpr std::string_view kDefault = "580";

/// Converts `13.0` to CUDA's number of the version, 13000.
bool read_version(const std::string& text, int& out) {
  int major = 0, minor = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '.') return false;
  const auto second = std::from_chars(first.ptr + 1, end, minor);
  out = 1000 * major + 10 * minor;
  return second.ec == std::errc{} && second.ptr == end;
}

/// A key of a profile's file.
struct Key {
  std::string_view name;
  std::function<bool(const TomlValue&, DriverProfile&)> read;
  bool is_needed = true;
};

std::string text_of(const TomlValue& node) { return node.kind == TomlValue::Kind::kText ? node.text : ""; }

bool read_size(const TomlValue& node, Bytes& out) {
  const auto value = parse_size(text_of(node), Bytes{0}, Bytes{0});
  return value && *value > Bytes{0} ? (out = *value, true) : false;
}

bool read_contexts(const TomlValue& node, DriverProfile& out) {
  return node.kind == TomlValue::Kind::kTable &&
         std::all_of(node.items.begin(), node.items.end(),
                     [&](const auto& card) { return read_size(card, out.contexts[card.name]); });
}

Key flag(std::string_view name, bool DriverProfile::*field) {
  return {name, [field](const TomlValue& node, DriverProfile& out) {
            return node.kind == TomlValue::Kind::kFlag ? (out.*field = node.text == "true", true) : false;
          }};
}

Key size(std::string_view name, Bytes DriverProfile::*field) {
  return {name, [field](const TomlValue& node, DriverProfile& out) { return read_size(node, out.*field); }};
}

const std::vector<Key>& kKeys = *new std::vector<Key>{
    {"release", [](const TomlValue& node, DriverProfile& out) { return !(out.release = text_of(node)).empty(); }},
    {"cuda", [](const TomlValue& node, DriverProfile& out) { return read_version(text_of(node), out.cuda_version); }},
    size("pool_growth", &DriverProfile::pool_growth),
    {"contexts", read_contexts, false},
    flag("process_bytes", &DriverProfile::process_bytes),
    flag("reset_deactivates", &DriverProfile::reset_deactivates),
    flag("group_limits", &DriverProfile::group_limits),
    flag("checkpoint_moves_shared", &DriverProfile::checkpoint_moves_shared),
    flag("checkpoint_moves_managed", &DriverProfile::checkpoint_moves_managed),
    flag("checkpoint_by_owner", &DriverProfile::checkpoint_by_owner),
    flag("restore_can_be_repeated", &DriverProfile::restore_can_be_repeated),
};

bool read_profile(const TomlValue& table, DriverProfile& out, std::string& problem) {
  for (const Key& key : kKeys) {
    const TomlValue* const node = table.find(key.name);
    if (node == nullptr && !key.is_needed) continue;
    if (node == nullptr || !key.read(*node, out)) {
      problem = "a driver's profile needs a good '" + std::string(key.name) + "'";
      return false;
    }
  }
  for (const TomlValue& entry : table.items) {
    if (std::none_of(std::begin(kKeys), std::end(kKeys), [&](const Key& key) { return key.name == entry.name; }))
      problem = "no driver's profile has '" + entry.name + "'";
  }
  return problem.empty();
}

/// Returns true for a release in the form of NVIDIA's drivers: `615`, `615.71` or `550.163.01`.
bool is_release(std::string_view text) {
  const auto parts = split(text, '.');
  return parts.size() <= 3 && std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
           return !part.empty() && part.size() < 6 && part.find_first_not_of("0123456789") == std::string_view::npos;
         });
}

int number_of(std::string_view release) { return std::atoi(std::string(release).c_str()); }

std::string names() {
  std::string all;
  for (const BuiltIn& one : kBuiltIn) all += (all.empty() ? "" : " ") + std::string(one.name);
  return all;
}

}  // namespace

bool read_toml_file(const std::string& path, TomlValue& out, std::string& problem) {
  const auto text = read_whole(path);
  if (!text) return problem = "'" + path + "' cannot be read: " + text.error(), false;
  auto document = read_toml(*text, path);
  if (!document) {
    problem = "line " + std::to_string(document.error().place.line) + ": " + document.error().what;
    return false;
  }
  out = std::move(*document);
  return true;
}

bool find_driver(const std::string& wanted, DriverProfile& out, std::string& problem) {
  const char* const usual = std::getenv("RATION_SIM_DRIVER");
  const std::string_view name = !wanted.empty() ? std::string_view{wanted} : usual != nullptr ? usual : kDefault;
  if (name.ends_with(".toml")) {
    TomlValue table;
    return read_toml_file(std::string(name), table, problem) && read_profile(table, out, problem);
  }
  const BuiltIn* found = nullptr;
  for (const BuiltIn& one : kBuiltIn) {
    if (one.name == name) return read_profile(*read_toml(one.text, ""), out, problem);
    if (is_release(one.name) && (found == nullptr || number_of(one.name) <= number_of(name))) found = &one;
  }
  if (!is_release(name) || found == nullptr) {
    problem = "there is no driver '" + std::string(name) + "' (known: " + names() + "; or the path of a .toml file)";
    return false;
  }
  if (!read_profile(*read_toml(found->text, ""), out, problem)) return false;
  out.release = name;
  return true;
}

}  // namespace ration::sim
