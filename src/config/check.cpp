// What may stand in a configuration: value by value, then what has to fit together.
#include <fmt/format.h>

#include <algorithm>

#include "base/strings.hpp"
#include "config/items.hpp"

namespace ration::config {
namespace {

using Complaint = std::optional<Error>;

Error complaint(std::string what, std::string fix) { return {"E1601", std::move(what), std::move(fix), 2}; }

template <typename Value>
Complaint error_of(const Result<Value>& result) {
  return result ? Complaint{} : Complaint{result.error()};
}

Complaint check_choice(const Key& key, const std::string& name, const std::string& text) {
  if (std::find(key.choices.begin(), key.choices.end(), text) != key.choices.end()) return {};
  const std::string meant = nearest(text, key.choices);
  return complaint(fmt::format("'{}' is not a value of {}{}", text, name,
                               meant.empty() ? "" : fmt::format(" - did you mean '{}'?", meant)),
                   fmt::format("One of: {}", fmt::join(key.choices, ", ")));
}

Complaint check_size(const std::string& name, const std::string& text) {
  // Against a large device: only the form is checked here.
  constexpr Bytes kLarge{std::uint64_t{1} << 50};
  if (const auto size = parse_size(text, kLarge, kLarge); !size) return size.error();
  if (text == "unlimited" && (name == "guarantee" || name == "keep_free"))
    return complaint(fmt::format("'{}' has to be a size", name), fmt::format("{} = \"2GiB\"", name));
  return {};
}

Complaint check_on_deny(const std::string& text) {
  if (text == "fail" || text == "wait") return {};
  if (text.rfind("wait:", 0) == 0 && parse_duration(text.substr(5))) return {};
  return complaint(fmt::format("'{}' is not an answer to a denial", text),
                   "on_deny = \"fail\", \"wait\" or \"wait:30s\"");
}

Complaint check_summary(const std::string& text) {
  if (text == "auto" || text == "always" || text == "never" || text.rfind("json:", 0) == 0) return {};
  return complaint(fmt::format("summary '{}' is unknown", text), "\"auto\", \"always\", \"never\" or \"json:FILE\"");
}

Complaint check_url(const std::string& text) {
  const bool secure = text.rfind("https://", 0) == 0, plain = text.rfind("http://", 0) == 0;
  const std::size_t host = secure ? 8 : 7;
  const bool good = (secure || plain) && text.size() > host && text[host] != '/' &&
                    text.find_first_of(" \t\n\"<>") == std::string::npos;
  if (text.empty() || good) return {};
  return complaint(fmt::format("'{}' is not a URL", text), "https://hooks.example.org/ration");
}

Complaint check_text(const Key& key, const std::string& name, const std::string& text) {
  switch (key.shape) {
    case Shape::kName:
      if (is_name(text)) return {};
      return complaint(fmt::format("'{}' cannot be a name", text),
                       "Use up to 59 letters without spaces, commas, quotes or slashes.");
    case Shape::kChoice:
      return check_choice(key, name, text);
    case Shape::kSize:
      return check_size(name, text);
    case Shape::kShare:
      return error_of(parse_share(text));
    case Shape::kDuration:
      return error_of(parse_span(text));
    case Shape::kOnDeny:
      return check_on_deny(text);
    case Shape::kSummary:
      return check_summary(text);
    case Shape::kListen:
      return text.empty() ? Complaint{} : error_of(parse_listen(text));
    case Shape::kUrl:
      return check_url(text);
    case Shape::kPrice:
      return error_of(parse_price(text));
    case Shape::kActivity:
      return error_of(parse_activity(text));
    case Shape::kHours:
      return error_of(parse_hours(text));
    case Shape::kDays:
      return error_of(parse_days(text));
    case Shape::kText:
    case Shape::kTexts:
    case Shape::kFlag:
    case Shape::kWhole:
    case Shape::kSizes:
    case Shape::kRules:
      return {};
  }
  return {};
}

class ListCheck {
 public:
  explicit ListCheck(std::vector<FileProblem>& problems) : problems_(problems) {}

  void add(const TomlValue& at, const Complaint& found) {
    if (found) problems_.push_back({{}, at.place, found->what, found->fix});
  }

  void check(const Key& key, const TomlValue& list) {
    std::vector<std::string> seen;
    for (const TomlValue& item : list.items) {
      if (item.kind != TomlValue::Kind::kText) {
        add(item, complaint("a text in quotes is wanted here", key.example));
        continue;
      }
      const bool before = std::find(seen.begin(), seen.end(), item.text) != seen.end();
      seen.push_back(item.text);
      if (key.shape == Shape::kRules) {
        add(item, error_of(parse_rule(item.text)));
        if (before) add(item, complaint(fmt::format("the rule '{}' is there twice", item.text), "Remove one."));
      } else if (key.shape == Shape::kSizes) {
        if (item.text != "rest")
          add(item, check_size("slice", item.text));
        else if (before)
          add(item, complaint("'rest' can be there once", key.example));
      }
    }
  }

 private:
  std::vector<FileProblem>& problems_;
};

/// Whether `part` is more than `whole` on a device of any size. What is a share of the device on one side only can be
/// decided on a device alone.
bool always_more(const Amount& part, const Amount& whole) {
  constexpr Bytes kSmall{std::uint64_t{1} << 30}, kLarge{std::uint64_t{1} << 50};
  if (!part.is_set() || !whole.is_set()) return false;
  for (const Bytes total : {kSmall, kLarge}) {
    const auto left = part.on(total, total), right = whole.on(total, total);
    if (!left || !right || *left <= *right) return false;
  }
  return true;
}

class ConsistencyCheck {
 public:
  ConsistencyCheck(const Configuration& configuration, std::vector<FileProblem>& problems)
      : all_(configuration), problems_(problems) {}

  void check() {
    check_daemon();
    guarantee_below(all_.defaults.guarantee, all_.defaults.limit, "");
    for (const Tenant& tenant : all_.tenants)
      guarantee_below(tenant.guarantee, tenant.limit, "tenant " + tenant.name.value);
    for (const Tenant& tenant : all_.tenants) check_currency(tenant.price);
    check_currency(all_.report.price);
    if (const auto& currency = all_.report.currency; !is_currency(currency.value))
      wrong(currency.origin, fmt::format("'{}' is not a currency", currency.value), "currency = \"EUR\"");
    for (const Policy& policy : all_.policies) check_idle(policy.idle);
    for (const Schedule& schedule : all_.schedules) check_schedule(schedule);
  }

 private:
  void wrong(const Origin& origin, std::string what, std::string fix) {
    problems_.push_back({origin.is_default() ? "default" : origin.file, origin.place, std::move(what), std::move(fix)});
  }

  void check_daemon() {
    const Daemon& daemon = all_.daemon;
    const auto endpoint = parse_listen(daemon.listen.value);
    if (endpoint && !endpoint->loopback && daemon.token_file.value.empty()) {
      wrong(daemon.listen.origin,
            fmt::format("{} can be reached from other machines: a token_file is needed", daemon.listen.value),
            "token_file = \"/etc/ration/token\", or listen = \"127.0.0.1:7077\"");
    }
    if (daemon.sample.value < std::chrono::milliseconds(10))
      wrong(daemon.sample.origin, "sample is at least 10ms", "sample = \"500ms\"");
    if (daemon.sample_idle.value < daemon.sample.value) {
      const bool typed = !daemon.sample_idle.origin.is_default();
      wrong(typed ? daemon.sample_idle.origin : daemon.sample.origin, "sample_idle is shorter than sample",
            "sample = \"500ms\", sample_idle = \"5s\"");
    }
  }

  void guarantee_below(const Sourced<Amount>& guarantee, const Sourced<Amount>& limit, const std::string& who) {
    if (!always_more(guarantee.value, limit.value)) return;
    wrong(guarantee.origin,
          fmt::format("{}guarantee {} is more than limit {} ({})", who.empty() ? "" : who + ": ", guarantee.value.text,
                      limit.value.text, limit.origin.text()),
          "Raise the limit or lower the guarantee.");
  }

  void check_currency(const Sourced<std::optional<Price>>& price) {
    if (!price.value || price.value->currency.empty() || price.value->currency == all_.report.currency.value) return;
    wrong(price.origin,
          fmt::format("the price is in {}, the report in {} ({})", price.value->currency, all_.report.currency.value,
                      all_.report.currency.origin.text()),
          "Write all prices in the report's currency.");
  }

  void check_idle(const Idle& idle) {
    if (!idle.after.value && !idle.action.origin.is_default())
      wrong(idle.action.origin, "idle needs after", "idle = { after = \"30m\", action = \"trim\" }");
  }

  void check_schedule(const Schedule& schedule) {
    for (const auto& [name, limit] : schedule.set) {
      std::vector<std::string> names;
      const Tenant* tenant = nullptr;
      for (const Tenant& known : all_.tenants) {
        names.push_back(known.name.value);
        if (known.name.value == name) tenant = &known;
      }
      if (tenant == nullptr) {
        const std::string meant = nearest(name, names);
        wrong(limit.origin,
              fmt::format("tenant '{}' is not known{}", name,
                          meant.empty() ? "" : fmt::format(" - did you mean '{}'?", meant)),
              names.empty() ? "[[tenant]]" : fmt::format("Known: {}", fmt::join(names, ", ")));
      } else {
        guarantee_at(limit, *tenant);
      }
    }
  }

  void guarantee_at(const Sourced<Amount>& limit, const Tenant& tenant) {
    if (!always_more(tenant.guarantee.value, limit.value)) return;
    wrong(limit.origin,
          fmt::format("tenant {}: {} is less than its guarantee {} ({})", tenant.name.value, limit.value.text,
                      tenant.guarantee.value.text, tenant.guarantee.origin.text()),
          "Raise the limit or lower the guarantee.");
  }

  const Configuration& all_;
  std::vector<FileProblem>& problems_;
};

/// A schedule without its hours, or without limits.
void check_needed(const Item& item, std::vector<FileProblem>& problems) {
  const std::string_view section = item.section->name;
  if (section == "policy" && item.leaves.empty())
    problems.push_back({item.origin.file, item.origin.place, "a policy that says nothing", "limit = \"8GiB\""});
  if (section != "schedule") return;
  const bool sets = std::any_of(item.leaves.begin(), item.leaves.end(),
                                [](const auto& entry) { return entry.first.rfind("set.", 0) == 0; });
  if (item.leaves.count("when") == 0)
    problems.push_back({item.origin.file, item.origin.place, "a schedule needs when", "when = \"22:00-07:00\""});
  if (!sets)
    problems.push_back({item.origin.file, item.origin.place, "a schedule needs set", "set = { nlp = \"90%\" }"});
}

}  // namespace

std::vector<FileProblem> check_value(const Key& key, const std::string& name, const TomlValue& value) {
  std::vector<FileProblem> problems;
  const auto wrong = [&](std::string what, std::string fix) {
    problems.push_back({{}, value.key, std::move(what), std::move(fix)});
  };
  const bool list = value.kind == TomlValue::Kind::kList;
  if (key.shape == Shape::kFlag) {
    if (value.kind != TomlValue::Kind::kFlag)
      wrong(fmt::format("'{}' is true or false", name), fmt::format("{} = true", name));
  } else if (key.shape == Shape::kWhole) {
    if (value.kind != TomlValue::Kind::kWhole)
      wrong(fmt::format("'{}' is an integer", name), fmt::format("{} = {}", name, key.example));
  } else if (key.shape == Shape::kSizes || key.shape == Shape::kRules) {
    if (!list) wrong(fmt::format("'{}' is a list of texts", name), fmt::format("{} = {}", name, key.example));
    ListCheck(problems).check(key, list ? value : TomlValue{});
  } else if (list && key.shape == Shape::kTexts) {
    ListCheck(problems).check(key, value);
  } else if (value.kind != TomlValue::Kind::kText) {
    wrong(fmt::format("'{}' is a text in quotes", name), fmt::format("{} = \"…\"", name));
  } else if (const auto found = check_text(key, name, value.text)) {
    wrong(found->what, found->fix);
  }
  return problems;
}

void check_items(const std::vector<Item>& items, std::vector<FileProblem>& problems) {
  for (const Item& item : items) check_needed(item, problems);
}

void check_consistency(const Configuration& configuration, std::vector<FileProblem>& problems) {
  ConsistencyCheck(configuration, problems).check();
}

}  // namespace ration::config
