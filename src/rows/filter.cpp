#include "rows/filter.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/say.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"

namespace ration::rows {
namespace {

constexpr std::size_t kMaxLength = 1000;  // characters of a filter
constexpr int kDeepest = 50;              // levels of nested parentheses

/// Returns the form in which texts are compared: upper and lower case count as equal, and so do full-width letters and
/// signs and those of ASCII.
std::string folded(std::string_view text) {
  const bool is_ascii = std::all_of(text.begin(), text.end(), [](char letter) { return (letter & 0x80) == 0; });
  return lower(is_ascii ? std::string(text) : in_ascii(text));
}

bool contains(std::string_view text, const std::string& part) { return folded(text).find(part) != std::string::npos; }

/// Returns the filter with full-width letters, signs and quotes as those of ASCII, except in quoted text.
std::string with_ascii_signs(std::string_view filter) {
  std::string plain;
  while (!filter.empty()) {
    std::string_view rest = filter;
    std::string_view quote;  // the first quote of any kind
    while (!rest.empty() && quote.empty()) {
      const std::string_view before = rest;
      take_character(rest);
      const std::string_view letter = before.substr(0, before.size() - rest.size());
      if (in_ascii(letter) == "\"") quote = letter;
    }
    plain += in_ascii(filter.substr(0, filter.size() - rest.size()));
    filter = rest;
    if (quote.empty()) continue;
    // A text in quotes of ASCII ends with such a quote; in other quotes, it ends with any quote.
    while (!filter.empty()) {
      const std::string_view before = filter;
      take_character(filter);
      const std::string_view letter = before.substr(0, before.size() - filter.size());
      const bool is_end = quote == "\"" ? letter == "\"" : in_ascii(letter) == "\"";
      plain += is_end ? "\"" : letter;
      if (is_end) break;
    }
  }
  return plain;
}

tl::unexpected<Error> not_understood(Message what) {
  return fail("E1429", std::move(what), "used>4GiB & denied>0, tenant~=nlp, governed==no, idle>30m", 2);
}

/// Returns true for a blank, and for every character that has a meaning of its own in a filter.
bool ends_word(char letter) { return std::string_view(" \t\n&|()!<>=~\"").find(letter) != std::string_view::npos; }

std::optional<bool> yes_or_no(const std::string& text) {
  if (text == "yes" || text == "true" || text == "1") return true;
  if (text == "no" || text == "false" || text == "0") return false;
  return std::nullopt;
}

}  // namespace

class FilterParser {
 public:
  explicit FilterParser(std::string_view text) : rest_(text) {}

  Result<Filter> parse() {
    RATION_TRY(either(0));
    skip_blanks();
    if (!rest_.empty()) return not_understood(say<"filter.rest">("text"_is(shortened(rest_, 20))));
    return std::move(filter_);
  }

 private:
  using Node = Filter::Node;
  using Operator = Filter::Operator;

  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n"), rest_.size())); }

  bool take(std::string_view text) {
    skip_blanks();
    if (rest_.substr(0, text.size()) != text) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  std::size_t add(Node node) {
    filter_.nodes_.push_back(std::move(node));
    return filter_.nodes_.size() - 1;
  }

  std::size_t join(Filter::Kind kind, std::size_t left, std::size_t right) {
    Node node;
    node.kind = kind;
    node.left = left;
    node.right = right;
    return add(node);
  }

  Result<std::size_t> either(int depth) {
    auto left = every(depth);
    while (left && (take("||") || take("|"))) {
      const auto right = every(depth);
      if (!right) return right;
      left = join(Filter::Kind::kOr, *left, *right);
    }
    return left;
  }

  /// Returns true if another condition follows without `&`, as in `tenant=nlp used>4GiB`.
  bool begins_another() {
    skip_blanks();
    return !rest_.empty() && std::string_view("|)&").find(rest_.front()) == std::string_view::npos;
  }

  Result<std::size_t> every(int depth) {
    auto left = one(depth);
    while (left && (take("&&") || take("&") || begins_another())) {
      const auto right = one(depth);
      if (!right) return right;
      left = join(Filter::Kind::kAnd, *left, *right);
    }
    return left;
  }

  Result<std::size_t> one(int depth) {
    if (depth > kDeepest) return not_understood(say<"filter.too_deep">());
    if (take("!")) {
      const auto inner = one(depth + 1);
      return inner ? Result<std::size_t>(join(Filter::Kind::kNot, *inner, 0)) : inner;
    }
    if (take("(")) {
      const auto inner = either(depth + 1);
      if (inner && !take(")")) return not_understood(say<"filter.no_parenthesis">());
      return inner;
    }
    return comparison();
  }

  Result<std::size_t> comparison() {
    Node node;
    RATION_TRY(const auto word, value(say<"filter.field_or_word">()));
    const auto compare = read_operator();
    if (!compare) {
      node.text = folded(word);
      return add(node);
    }
    node.kind = Filter::Kind::kCompare;
    node.compare = *compare;
    node.field = field_named(lower(word));
    if (node.field == nullptr) {
      std::vector<std::string> names;
      for (const Field& field : fields()) names.emplace_back(field.name);
      const std::string meant = nearest(word, names);
      return not_understood(say<"filter.no_field">("field"_is(word),
                                                   "meant"_is(meant.empty() ? std::nullopt : std::optional(meant)),
                                                   "fields"_is(field_names())));
    }
    RATION_TRY(const auto given, value(say<"filter.value">("field"_is(node.field->name))));
    node.text = folded(given);
    node.unknown = node.text == "n/a" && (*compare == Operator::kEqual || *compare == Operator::kUnequal);
    if (node.unknown) return add(node);
    RATION_TRY(read_number(node, given));
    return add(node);
  }

  std::optional<Operator> read_operator() {
    constexpr std::array<std::pair<std::string_view, Operator>, 9> kOperators{{{">=", Operator::kAtLeast},
                                                                               {"<=", Operator::kAtMost},
                                                                               {"==", Operator::kEqual},
                                                                               {"!=", Operator::kUnequal},
                                                                               {"~=", Operator::kHolds},
                                                                               {"!~", Operator::kHoldsNot},
                                                                               {">", Operator::kMore},
                                                                               {"<", Operator::kLess},
                                                                               {"=", Operator::kEqual}}};
    for (const auto& [text, meaning] : kOperators)
      if (take(text)) return meaning;
    return std::nullopt;
  }

  Result<std::string> value(const Message& what) {
    skip_blanks();
    if (!rest_.empty() && rest_.front() == '"') {
      const std::size_t end = rest_.find('"', 1);
      if (end == std::string_view::npos) return not_understood(say<"filter.no_quote">());
      std::string text(rest_.substr(1, end - 1));
      rest_.remove_prefix(end + 1);
      return text;
    }
    std::size_t end = 0;
    while (end < rest_.size() && !ends_word(rest_[end])) ++end;
    if (end == 0) {
      return not_understood(rest_.empty()
                                ? say<"filter.wants_at_end">("what"_is(what))
                                : say<"filter.wants_instead">("what"_is(what), "text"_is(shortened(rest_, 20))));
    }
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return text;
  }

  static Result<void> read_number(Node& node, const std::string& text) {
    const FieldKind kind = node.field->kind;
    const bool of_text = node.compare == Operator::kHolds || node.compare == Operator::kHoldsNot;
    const bool equality = node.compare == Operator::kEqual || node.compare == Operator::kUnequal;
    if (kind == FieldKind::kText) {
      if (of_text || equality) return {};
      return not_understood(say<"filter.is_text">("field"_is(node.field->name)));
    }
    if (of_text || (kind == FieldKind::kYesNo && !equality)) {
      return not_understood(kind == FieldKind::kYesNo ? say<"filter.is_yes_or_no">("field"_is(node.field->name))
                                                      : say<"filter.is_number">("field"_is(node.field->name)));
    }
    if (kind == FieldKind::kYesNo) {
      const auto answer = yes_or_no(node.text);
      if (!answer) return not_understood(say<"filter.not_yes_or_no">("field"_is(node.field->name), "text"_is(text)));
      node.number = *answer ? 1 : 0;
      return {};
    }
    if (const auto read = std::from_chars(text.data(), text.data() + text.size(), node.number);
        read.ec == std::errc{} && read.ptr == text.data() + text.size() &&
        (kind == FieldKind::kCount || node.number == 0))
      return {};
    if (kind == FieldKind::kCount)
      return not_understood(say<"filter.not_number">("field"_is(node.field->name), "text"_is(text)));
    if (kind == FieldKind::kDuration) {
      RATION_TRY(const auto span, parse_duration(text));
      node.number = span / 1'000'000'000U;
      return {};
    }
    // The share depends on the row's device, so matches() parses it again for each row.
    constexpr Bytes kSomeDevice{std::uint64_t{1} << 60U};
    RATION_TRY(const auto bytes, parse_size(text, kSomeDevice, kSomeDevice));
    node.number = bytes.count();
    node.share_of_device = text.find('%') != std::string::npos || text.rfind("max", 0) == 0;
    return {};
  }

  std::string_view rest_;
  Filter filter_;
};

Result<Filter> Filter::parse(std::string_view text) {
  if (text.find_first_not_of(" \t\n") == std::string_view::npos) return Filter{};
  if (text.size() > kMaxLength) return not_understood(say<"filter.too_long">("count"_is(kMaxLength)));
  const std::string plain = with_ascii_signs(text);
  return FilterParser(plain).parse();
}

bool Filter::matches(const Row& row, const Device* device) const {
  return nodes_.empty() || holds(nodes_.size() - 1, row, device);
}

bool Filter::holds(std::size_t node, const Row& row, const Device* device) const {
  const Node& self = nodes_[node];
  switch (self.kind) {
    case Kind::kAnd:
      return holds(self.left, row, device) && holds(self.right, row, device);
    case Kind::kOr:
      return holds(self.left, row, device) || holds(self.right, row, device);
    case Kind::kNot:
      return !holds(self.left, row, device);
    case Kind::kCompare:
      return compared(self, row, device);
    case Kind::kWord:
      break;
  }
  return contains(row.title(), self.text) || std::any_of(fields().begin(), fields().end(), [&](const Field& field) {
           return field.kind == FieldKind::kText && contains(field.text(row), self.text);
         });
}

bool Filter::compared(const Node& node, const Row& row, const Device* device) {
  if (node.unknown) {
    const bool known =
        node.field->kind == FieldKind::kText ? !node.field->text(row).empty() : node.field->number(row).has_value();
    return known == (node.compare == Operator::kUnequal);
  }
  if (node.field->kind == FieldKind::kText) {
    const std::string text = node.field->text(row);
    switch (node.compare) {
      case Operator::kHolds:
        return contains(text, node.text);
      case Operator::kHoldsNot:
        return !contains(text, node.text);
      case Operator::kEqual:
        return folded(text) == node.text;
      default:
        return folded(text) != node.text;
    }
  }
  const auto number = node.field->number(row);
  if (!number) return false;
  std::uint64_t bound = node.number;
  if (node.share_of_device) {
    if (device == nullptr || !device->total) return false;
    const auto bytes = parse_size(node.text, *device->total, device->free.value_or(Bytes{0}));
    if (!bytes) return false;  // for example max-40GiB of a 16 GiB device
    bound = bytes->count();
  }
  switch (node.compare) {
    case Operator::kMore:
      return *number > bound;
    case Operator::kAtLeast:
      return *number >= bound;
    case Operator::kLess:
      return *number < bound;
    case Operator::kAtMost:
      return *number <= bound;
    case Operator::kEqual:
      return *number == bound;
    default:
      return *number != bound;
  }
}

}  // namespace ration::rows
