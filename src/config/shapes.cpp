#include "config/shapes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.hpp"

namespace ration::config {
namespace {

using Kind = TomlValue::Kind;
using Texts = std::vector<std::string>;

std::nullopt_t wrong(Problems& problems, const FilePlace& place, std::string what, std::string fix) {
  problems.push_back({{}, place, std::move(what), std::move(fix)});
  return std::nullopt;
}

// ------------------------------------------------------------------------------------- single texts, to values

tl::unexpected<Error> refuse(std::string what, std::string fix) {
  return fail("E1601", std::move(what), std::move(fix), 2);
}

Result<std::string> any_text(const std::string& text) { return text; }

Result<std::string> name(const std::string& text) {
  if (is_name(text)) return text;
  return refuse(fmt::format("'{}' cannot be a name", text),
                "Use up to 59 letters without spaces, commas, double quotes or slashes.");
}

Result<std::size_t> choice(const Key& key, const TomlValue& value) {
  const auto found = std::find(key.choices.begin(), key.choices.end(), value.text);
  if (found != key.choices.end()) return static_cast<std::size_t>(found - key.choices.begin());
  const std::string meant = nearest(value.text, key.choices);
  return refuse(fmt::format("'{}' is not a value of {}{}", value.text, value.name,
                            meant.empty() ? "" : fmt::format(" - did you mean '{}'?", meant)),
                fmt::format("One of: {}", fmt::join(key.choices, ", ")));
}

Result<std::string> word(const Key& key, const TomlValue& value) {
  return choice(key, value).map([&](std::size_t place) { return key.choices[place]; });
}

Result<Amount> size(const std::string& text) {
  constexpr Bytes kLarge{std::uint64_t{1} << 50};  // only the form is checked here, so any large device serves
  return parse_size(text, kLarge, kLarge).map([&](Bytes) { return Amount{text}; });
}

Result<Amount> finite_size(const Key&, const TomlValue& value) {
  if (value.text != "unlimited") return size(value.text);
  return refuse(fmt::format("'{}' must be a size", value.name), fmt::format("{} = \"2GiB\"", value.name));
}

Result<std::string> slice(const std::string& text) {
  if (text == "rest") return text;
  return size(text).map([&](const Amount&) { return text; });
}

Result<std::string> on_deny(const std::string& text) {
  if (text == "fail" || text == "wait" || (text.starts_with("wait:") && parse_duration(text.substr(5)))) return text;
  return refuse(fmt::format("'{}' is not fail, wait or wait:DURATION", text),
                "on_deny = \"fail\", \"wait\" or \"wait:30s\"");
}

Result<std::string> summary(const std::string& text) {
  if (text == "auto" || text == "always" || text == "never" || text.starts_with("json:")) return text;
  return refuse(fmt::format("'{}' is not auto, always, never or json:FILE", text),
                "\"auto\", \"always\", \"never\" or \"json:FILE\"");
}

Result<std::string> listen(const std::string& text) {
  if (text.empty()) return text;
  return parse_listen(text).map([&](const Endpoint&) { return text; });
}

Result<std::string> url(const std::string& text) {
  const bool secure = text.starts_with("https://"), plain = text.starts_with("http://");
  const std::size_t host = secure ? 8 : 7;
  const bool good = (secure || plain) && text.size() > host && text[host] != '/' &&
                    text.find_first_of(" \t\n\"<>") == std::string::npos;
  if (text.empty() || good) return text;
  return refuse(fmt::format("'{}' is not a URL", text), "https://hooks.example.org/ration");
}

// ------------------------------------------------------------------------------------- values of a file

template <auto parse>
auto parsed(const Key& key, const TomlValue& value) {
  if constexpr (std::is_invocable_v<decltype(parse), const std::string&>)
    return parse(value.text);
  else
    return parse(key, value);
}
template <auto parse>
using Parsed = typename decltype(parsed<parse>({}, {}))::value_type;

template <auto parse>
std::optional<Parsed<parse>> text(const Key& key, const TomlValue& value, Problems& problems) {
  if (value.kind != Kind::kText)
    return wrong(problems, value.key, fmt::format("'{}' must be a text in quotes", value.name),
                 fmt::format("{} = \"…\"", value.name));
  auto result = parsed<parse>(key, value);
  if (!result) return wrong(problems, value.key, result.error().what, result.error().fix);
  return std::move(*result);
}

using Twice = std::optional<Error> (*)(const Key& key, const std::string& text);
std::optional<Error> may_repeat(const Key&, const std::string&) { return {}; }
std::optional<Error> one_rest(const Key& key, const std::string& text) {
  if (text != "rest") return {};
  return Error{"E1601", "'rest' may be given only once", key.example, 2};
}
std::optional<Error> no_rule_twice(const Key&, const std::string& text) {
  return Error{"E1601", fmt::format("the rule '{}' is given twice", text), "Remove one.", 2};
}

template <auto parse, Twice twice>
std::optional<std::vector<Parsed<parse>>> list(const Key& key, const TomlValue& value, Problems& problems) {
  if (value.kind != Kind::kList)
    return wrong(problems, value.key, fmt::format("'{}' must be a list of strings", value.name),
                 fmt::format("{} = {}", value.name, key.example));
  std::vector<Parsed<parse>> all;
  Texts seen;
  const std::size_t before = problems.size();
  for (const TomlValue& item : value.items) {
    if (item.kind != Kind::kText) {
      wrong(problems, item.place, "this must be a text in quotes", key.example);
      continue;
    }
    if (auto result = parsed<parse>(key, item))
      all.push_back(std::move(*result));
    else
      wrong(problems, item.place, result.error().what, result.error().fix);
    const bool repeated = std::find(seen.begin(), seen.end(), item.text) != seen.end();
    if (const auto error = repeated ? twice(key, item.text) : std::nullopt)
      wrong(problems, item.place, error->what, error->fix);
    seen.push_back(item.text);
  }
  return problems.size() == before ? std::optional(std::move(all)) : std::nullopt;
}

std::optional<Texts> text_or_list(const Key& key, const TomlValue& value, Problems& problems) {
  if (value.kind == Kind::kList) return list<any_text, may_repeat>(key, value, problems);
  const auto one = text<any_text>(key, value, problems);
  return one ? std::optional(Texts{*one}) : std::nullopt;
}

std::optional<bool> flag(const Key&, const TomlValue& value, Problems& problems) {
  if (value.kind == Kind::kFlag) return value.text == "true";
  return wrong(problems, value.key, fmt::format("'{}' must be true or false", value.name),
               fmt::format("{} = true", value.name));
}

std::optional<std::int64_t> whole(const Key& key, const TomlValue& value, Problems& problems) {
  if (value.kind == Kind::kWhole) return std::strtoll(value.text.c_str(), nullptr, 10);
  return wrong(problems, value.key, fmt::format("'{}' must be an integer", value.name),
               fmt::format("{} = {}", value.name, key.example));
}

}  // namespace

std::optional<std::size_t> read_choice(const Key& key, const TomlValue& value, Problems& problems) {
  return text<choice>(key, value, problems);
}

namespace shapes {

template <typename Value>
using Of = const TypedShape<Value>;

constinit Of<std::string> kText{{"text", Kind::kText}, text<any_text>};
constinit Of<Texts> kTexts{{"text, or list of texts", Kind::kText},
                           text_or_list};  // `*` fits any letters, `?` one letter
constinit Of<bool> kFlag{{"true or false", Kind::kFlag}, flag};
constinit Of<std::int64_t> kWhole{{"integer", Kind::kWhole}, whole};
constinit Of<std::string> kName{{"name", Kind::kText}, text<name>};    // a tenant's name
constinit Of<std::string> kWord{{"one of", Kind::kText}, text<word>};  // one of `choices`, stored as written
constinit Of<Amount> kSize{{"size", Kind::kText}, text<size>};         // 4GiB, 50%, max-1GiB, unlimited
constinit Of<Amount> kFinite{{"size", Kind::kText}, text<finite_size>};
constinit Of<Texts> kSizes{{"list of sizes", Kind::kList}, list<slice, one_rest>};  // with at most one "rest"
constinit Of<double> kShare{{"percentage", Kind::kText}, text<parse_share>};        // 90%
constinit Of<std::chrono::nanoseconds> kDuration{{"duration", Kind::kText}, text<parse_span>};  // 500ms, 30s, 400d
constinit Of<std::string> kOnDeny{{"fail, wait or wait:DURATION", Kind::kText}, text<on_deny>};
constinit Of<std::string> kSummary{{"auto, always, never or json:FILE", Kind::kText}, text<summary>};
constinit Of<std::string> kListen{{"address:port", Kind::kText}, text<listen>};  // empty for no port
constinit Of<std::string> kUrl{{"URL", Kind::kText}, text<url>};        // http://…, https://…; empty for none
constinit Of<Price> kPrice{{"price", Kind::kText}, text<parse_price>};  // 0.031 EUR/GiB·h
constinit Of<double> kActivity{{"percentage of activity", Kind::kText}, text<parse_activity>};  // 1% activity
constinit Of<Hours> kHours{{"HH:MM-HH:MM", Kind::kText}, text<parse_hours>};
constinit Of<Days> kDays{{"days", Kind::kText}, text<parse_days>};  // mon-fri,sun
constinit Of<std::vector<AlertRule>> kRules{{"list of rules", Kind::kList}, list<parse_rule, no_rule_twice>};

}  // namespace shapes
}  // namespace ration::config
