#include "driver_profile.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string_view>

#include "base/units.hpp"

namespace ration::sim {
namespace {

struct BuiltIn {
  std::string_view name, text;
};
// Made from sim/drivers/*.toml, ordered by name.
constexpr BuiltIn kBuiltIn[] = {
#include "driver_profiles.inc"
};

/// What a simulated node has where nothing else is asked for.
constexpr std::string_view kDefault = "580";

/// `13.0` as CUDA counts its versions: 13000.
bool read_version(const std::string& text, int& out) {
  int major = 0, minor = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != '.') return false;
  const auto second = std::from_chars(first.ptr + 1, end, minor);
  out = 1000 * major + 10 * minor;
  return second.ec == std::errc{} && second.ptr == end;
}

/// What a file says under one key.
struct Key {
  std::string_view name;
  std::function<bool(const toml::node&, DriverProfile&)> read;
  bool is_needed = true;
};

bool read_size(const toml::node& node, Bytes& out) {
  const auto value = parse_size(node.value_exact<std::string>().value_or(""), Bytes{0}, Bytes{0});
  return value && *value > Bytes{0} ? (out = *value, true) : false;
}

bool read_contexts(const toml::node& node, DriverProfile& out) {
  const toml::table* const cards = node.as_table();
  if (cards == nullptr) return false;
  return std::all_of(cards->begin(), cards->end(), [&](const auto& card) {
    return read_size(card.second, out.contexts[std::string(card.first.str())]);
  });
}

Key flag(std::string_view name, bool DriverProfile::*field) {
  return {name, [field](const toml::node& node, DriverProfile& out) {
            if (const auto value = node.value_exact<bool>()) return out.*field = *value, true;
            return false;
          }};
}

Key size(std::string_view name, Bytes DriverProfile::*field) {
  return {name, [field](const toml::node& node, DriverProfile& out) { return read_size(node, out.*field); }};
}

const Key kKeys[] = {
    {"release",
     [](const toml::node& node, DriverProfile& out) {
       return !(out.release = node.value_exact<std::string>().value_or("")).empty();
     }},
    {"cuda",
     [](const toml::node& node, DriverProfile& out) {
       return read_version(node.value_exact<std::string>().value_or(""), out.cuda_version);
     }},
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

bool read_profile(std::string_view text, DriverProfile& out, std::string& problem) try {
  const toml::table table = toml::parse(text);
  for (const Key& key : kKeys) {
    const toml::node* const node = table.get(key.name);
    if (node == nullptr && !key.is_needed) continue;
    if (node == nullptr || !key.read(*node, out)) {
      problem = "a driver's profile needs a good '" + std::string(key.name) + "'";
      return false;
    }
  }
  for (const auto& entry : table) {
    const std::string_view name = entry.first.str();
    if (std::none_of(std::begin(kKeys), std::end(kKeys), [&](const Key& key) { return key.name == name; }))
      problem = "no driver's profile has '" + std::string(name) + "'";
  }
  return problem.empty();
} catch (const toml::parse_error& error) {
  problem = error.description();
  return false;
}

/// `615` or `615.71`, the numbers that NVIDIA gives its drivers.
bool is_release(std::string_view text) {
  const auto digits = [](std::string_view part) {
    return !part.empty() && part.size() < 6 && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const auto point = text.find('.');
  return digits(text.substr(0, point)) && (point == std::string_view::npos || digits(text.substr(point + 1)));
}

int number_of(std::string_view release) { return std::atoi(std::string(release).c_str()); }

std::string names() {
  std::string all;
  for (const BuiltIn& one : kBuiltIn) all += (all.empty() ? "" : " ") + std::string(one.name);
  return all;
}

}  // namespace

bool find_driver(const std::string& wanted, DriverProfile& out, std::string& problem) {
  const char* const usual = std::getenv("RATION_SIM_DRIVER");
  const std::string_view name = !wanted.empty() ? std::string_view{wanted} : usual != nullptr ? usual : kDefault;
  if (name.ends_with(".toml")) {
    std::ifstream file{std::string(name)};
    std::ostringstream text;
    if (!(text << file.rdbuf())) return problem = "'" + std::string(name) + "' cannot be read", false;
    return read_profile(text.str(), out, problem);
  }
  const BuiltIn* found = nullptr;
  for (const BuiltIn& one : kBuiltIn) {
    if (one.name == name) return read_profile(one.text, out, problem);
    if (is_release(one.name) && (found == nullptr || number_of(one.name) <= number_of(name))) found = &one;
  }
  if (!is_release(name) || found == nullptr) {
    problem = "there is no driver '" + std::string(name) + "' (known: " + names() + "; or the path of a .toml file)";
    return false;
  }
  if (!read_profile(found->text, out, problem)) return false;
  out.release = name;
  return true;
}

}  // namespace ration::sim
