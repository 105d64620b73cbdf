// The forms of configuration values: a table of shapes, each with a name and a reader that checks a value and converts
// it. field<> binds a shape to its field of the configuration. Used by the table of keys. Promise: a field whose type
// differs from its shape's does not compile.
#pragma once

#include <type_traits>

#include "config/keys.hpp"

namespace ration::config {

/// A shape whose values have one type.
template <typename Value>
struct TypedShape : Shape {
  /// Returns the value, or adds the reason why it is wrong to `problems`.
  std::optional<Value> (*read)(const Key& key, const TomlValue& value, Problems& problems);
};

/// Returns the index of a text among the choices of its key.
std::optional<std::size_t> read_choice(const Key& key, const TomlValue& value, Problems& problems);

/// Reads a choice as an enumerator of Enum, whose enumerators have the order of the key's choices.
template <typename Enum>
std::optional<Enum> read_enum(const Key& key, const TomlValue& value, Problems& problems) {
  const auto place = read_choice(key, value, problems);
  return place ? std::optional(static_cast<Enum>(*place)) : std::nullopt;
}

namespace shapes {

extern const TypedShape<std::string> kText, kName, kWord, kOnDeny, kSummary, kListen, kUrl;
extern const TypedShape<std::vector<std::string>> kTexts, kSizes;
extern const TypedShape<bool> kFlag;
extern const TypedShape<std::int64_t> kWhole;
extern const TypedShape<Amount> kSize, kFinite;
extern const TypedShape<double> kShare, kActivity;
extern const TypedShape<std::chrono::nanoseconds> kDuration;
extern const TypedShape<Price> kPrice;
extern const TypedShape<Hours> kHours;
extern const TypedShape<Days> kDays;
extern const TypedShape<std::vector<AlertRule>> kRules;
template <typename Enum>
inline constexpr TypedShape<Enum> kOneOf{{"one of", TomlValue::Kind::kText}, read_enum<Enum>};

}  // namespace shapes

/// Returns the part of a configuration that holds a section's fields. For a section that is written several times, that
/// is its last item.
template <typename Part>
Part& part(Configuration& all);
// clang-format off
template <> inline Configuration& part(Configuration& all) { return all; }
template <> inline Daemon& part(Configuration& all) { return all.daemon; }
template <> inline Defaults& part(Configuration& all) { return all.defaults; }
template <> inline DeviceRule& part(Configuration& all) { return all.devices.back(); }
template <> inline Tenant& part(Configuration& all) { return all.tenants.back(); }
template <> inline Policy& part(Configuration& all) { return all.policies.back(); }
template <> inline Schedule& part(Configuration& all) { return all.schedules.back(); }
template <> inline AlertSettings& part(Configuration& all) { return all.alerts; }
template <> inline Report& part(Configuration& all) { return all.report; }
// clang-format on

/// Begins an item of a section. Section::add points to such a function.
template <auto kList>
void add(Configuration& all) {
  (all.*kList).emplace_back();
}

template <const auto& kShape>
void check(const Key& key, const TomlValue& value, Problems& problems) {
  static_cast<void>(kShape.read(key, value, problems));
}

template <typename Part, typename Value>
Part part_of(Value Part::*);

template <const auto& kShape, auto kFirst, auto... kNested>
void store(const Key& key, const TomlValue& value, const Origin& origin, Configuration& all) {
  auto& member = ((part<decltype(part_of(kFirst))>(all).*kFirst).*....*kNested);
  const auto set = [&](auto& sourced) {
    sourced.origin = origin;
    Problems known;  // ignored, because check() has reported these problems
    auto read = kShape.read(key, value, known);
    using Read = typename decltype(read)::value_type;
    using Wanted = decltype(sourced.value);
    static_assert(std::is_same_v<Wanted, Read> || std::is_same_v<Wanted, std::optional<Read>>,
                  "the field is not of its shape's type");
    if (read) sourced.value = std::move(*read);
  };
  if constexpr (requires { member.origin; })
    set(member);
  else
    set(member[value.name]);  // under `set.*` each name has a value of its own
}

/// Binds a field by the path to it: field<shapes::kDuration, &Policy::idle, &Idle::after>.
template <const auto& kShape, auto... kWay>
inline constexpr Field field{&kShape, check<kShape>, store<kShape, kWay...>};

}  // namespace ration::config
