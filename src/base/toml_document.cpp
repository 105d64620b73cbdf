#include "base/toml_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>
#include <toml.hpp>

#include "base/result.hpp"
#include "base/strings.hpp"
#include "base/utf8.hpp"

namespace ration {
namespace {

// The library is toml11 3.7.1. Of the two packaged libraries that report lines and columns, toml++ 3.3 has undefined
// behaviour on malformed arrays, inline tables and letters beyond ASCII, all of which a configuration may contain.
// toml11 reads out of bounds when it reports bytes that are not UTF-8 (its issue 199), and recurses as deep as a
// document nests; check_form() prevents both. With that check, 15 minutes of fuzzing with the address and
// undefined-behaviour sanitizers found nothing.
using Value = toml::basic_value<toml::discard_comments, std::map, std::vector>;

constexpr std::size_t kDeepest = 16;  // nesting of brackets; ration's own files need 3
constexpr std::size_t kMaxDots = 16;  // dots on one line outside quotes, each of which may open a table within a table
constexpr std::size_t kLongestExplained = 200;  // letters of a line; a regular expression recurses for each
constexpr const char* kSee = "See: ration help config";

struct Form {
  std::string_view text;
  std::size_t at = 0, line = 1, line_start = 0;

  [[nodiscard]] FilePlace place() const { return {line, at - line_start + 1}; }
  [[nodiscard]] unsigned byte(std::size_t ahead = 0) const {
    return at + ahead < text.size() ? static_cast<unsigned char>(text[at + ahead]) : 0;
  }
};

/// Returns the number of bytes of the letter that begins here, or 0 if none begins here. Letters are those of RFC 3629,
/// but among the control characters only tab and line ends.
std::size_t letter_length(const Form& form) {
  const unsigned first = form.byte(), second = form.byte(1);
  if (first < 0x80) {
    const bool line_end = first == '\n' || (first == '\r' && form.byte(1) == '\n');
    return (first >= 0x20 && first != 0x7f) || first == '\t' || line_end ? 1 : 0;
  }
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((form.byte(i) & 0xc0U) != 0x80) return 0;
  }
  const bool too_long = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool no_letter = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
  return too_long || no_letter ? 0 : length;
}

/// Checks a document letter by letter, and remembers open brackets, an open quote and an open comment.
class FormCheck {
 public:
  FormCheck(std::string_view document, const std::string& file) : form_{document}, file_(file) {}

  tl::expected<void, FileProblem> run() {
    while (form_.at < form_.text.size()) {
      const std::size_t length = letter_length(form_);
      if (length == 0) return wrong(form_.place(), "this is not UTF-8 text", "Save the file as UTF-8.");
      const char letter = form_.text[form_.at];
      if (auto good = letter == '\n' ? end_line() : take(letter); !good) return good;
      form_.at += length;
    }
    if (quote_ != 0) return unended_text();
    if (!open_.empty())
      return wrong(open_.back().place, fmt::format("'{}' is never closed", open_.back().bracket), kSee);
    return {};
  }

 private:
  using Checked = tl::expected<void, FileProblem>;
  struct Open {
    char bracket;
    FilePlace place;
  };

  [[nodiscard]] tl::unexpected<FileProblem> wrong(const FilePlace& place, std::string what, std::string fix) const {
    return tl::unexpected(FileProblem{file_, place, std::move(what), std::move(fix)});
  }
  [[nodiscard]] tl::unexpected<FileProblem> unended_text() const {
    return wrong(quoted_at_, "this text has no end on its line", "limit = \"4GiB\"");
  }

  Checked end_line() {
    if (quote_ != 0) return unended_text();
    if (!open_.empty() && open_.back().bracket == '{')
      return wrong(open_.back().place, "this table in braces has no end on its line",
                   "match = { users = [\"alice\"] }");
    comment_ = false;
    dots_ = 0;
    ++form_.line;
    form_.line_start = form_.at + 1;
    return {};
  }

  Checked take(char letter) {
    if (comment_) return {};
    if (quote_ != 0) {  // brackets and dots in quotes do not count
      if (letter == '\\' && quote_ == '"' && form_.byte(1) >= 0x20 && form_.byte(1) < 0x7f) ++form_.at;
      if (letter == quote_) quote_ = 0;
      return {};
    }
    if (letter == '"' || letter == '\'') return begin_text(letter);
    if (letter == '#') comment_ = true;
    if (letter == '[' || letter == '{') return open_bracket(letter);
    if (letter == ']' || letter == '}') return close_bracket(letter);
    if (letter == '.' && ++dots_ > kMaxDots) return wrong(form_.place(), "too many dots on one line", kSee);
    return {};
  }

  Checked begin_text(char letter) {
    if (form_.text.substr(form_.at, 3) == std::string(3, letter))
      return wrong(form_.place(), "a text is written on one line", "limit = \"4GiB\"");
    quote_ = letter;
    quoted_at_ = form_.place();
    return {};
  }
  Checked open_bracket(char letter) {
    open_.push_back({letter, form_.place()});
    if (open_.size() > kDeepest) return wrong(form_.place(), "brackets are nested too deep", kSee);
    return {};
  }
  Checked close_bracket(char letter) {
    if (open_.empty() || open_.back().bracket != (letter == ']' ? '[' : '{'))
      return wrong(form_.place(), fmt::format("'{}' closes nothing", letter), kSee);
    open_.pop_back();
    return {};
  }

  Form form_;
  const std::string& file_;
  std::vector<Open> open_;
  FilePlace quoted_at_;
  char quote_ = 0;
  bool comment_ = false;
  std::size_t dots_ = 0;
};

/// Rejects documents that the library does not survive: bytes that are not UTF-8, and too deep nesting. Also reports
/// each quote or bracket that is never closed, at the place where it opens, because the library's report is less clear.
tl::expected<void, FileProblem> check_form(std::string_view document, const std::string& file) {
  return FormCheck(document, file).run();
}

/// The positions where the lines of a document begin.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text), starts_{0} {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') starts_.push_back(i + 1);
    }
  }

  /// Returns where the key of the value at `place` begins; the library does not keep that position. Searches backward
  /// from the value for `=` and then for the key. A table with a header of its own has no such `=`; its key is at the
  /// header.
  [[nodiscard]] FilePlace key_before(const FilePlace& place) const {
    const std::size_t start = starts_[std::min(place.line, starts_.size()) - 1];
    std::size_t at = std::min(start + place.column - 1, text_.size());
    const auto skip_blanks = [&] {
      while (at > start && (text_[at - 1] == ' ' || text_[at - 1] == '\t')) --at;
    };
    skip_blanks();
    if (at == start || text_[at - 1] != '=') return place;
    --at;
    skip_blanks();
    if (at == start) return place;
    const char last = text_[at - 1];
    const auto belongs = [&](char letter) {
      return last == '"' || last == '\''
                 ? letter != last
                 : letter != ' ' && letter != '\t' && letter != '.' && letter != '{' && letter != ',' && letter != '[';
    };
    --at;
    while (at > start && belongs(text_[at - 1])) --at;
    if ((last == '"' || last == '\'') && at > start) --at;
    return {place.line, at - start + 1};
  }

 private:
  std::string_view text_;
  std::vector<std::size_t> starts_;
};

TomlValue convert(const Value& value, std::string name, const Lines& lines) {
  TomlValue node;
  node.name = std::move(name);
  const auto location = value.location();
  node.place = {location.line(), location.column()};
  node.key = node.name.empty() ? node.place : lines.key_before(node.place);
  if (value.is_string()) {
    node.kind = TomlValue::Kind::kText;
    node.text = value.as_string().str;
  } else if (value.is_integer()) {
    node.kind = TomlValue::Kind::kWhole;
    node.text = std::to_string(value.as_integer());
  } else if (value.is_boolean()) {
    node.kind = TomlValue::Kind::kFlag;
    node.text = value.as_boolean() ? "true" : "false";
  } else if (value.is_array()) {
    node.kind = TomlValue::Kind::kList;
    for (const Value& item : value.as_array()) node.items.push_back(convert(item, {}, lines));
  } else if (value.is_table()) {
    for (const auto& [key, item] : value.as_table()) node.items.push_back(convert(item, key, lines));
    std::stable_sort(node.items.begin(), node.items.end(), [](const TomlValue& left, const TomlValue& right) {
      return std::pair{left.place.line, left.place.column} < std::pair{right.place.line, right.place.column};
    });
  } else {
    node.kind = TomlValue::Kind::kOther;
  }
  return node;
}

// Strips surrounding spaces and a final full stop.
std::string bare_sentence(std::string text) {
  text.erase(0, text.find_first_not_of(' '));
  text.erase(text.find_last_not_of(" .") + 1);
  return text;
}

/// Extracts the problem from the library's report, which has a message, the line, a mark below it, and hints. With
/// several marks the last one is at the error:
///     [error] toml::insert_value: value ("a") already exists.
///      2 | a = 2
///        |     ^--- value defined twice
FileProblem problem_of(const toml::exception& error, const std::string& file) {
  FileProblem problem{file, {error.location().line(), error.location().column()}, {}, kSee};
  std::istringstream page{error.what()};
  std::string line, mark;
  std::getline(page, line);
  for (const char* before : {"[error] ", "toml::", "parse_"}) {
    if (line.rfind(before, 0) == 0) line.erase(0, std::string_view(before).size());
  }
  const std::size_t colon = line.find(": ");
  if (colon != std::string::npos && line.find(' ') > colon) line.erase(0, colon + 2);  // removes the name of a function
  problem.what = bare_sentence(line);
  std::size_t number = problem.place.line;
  while (std::getline(page, line)) {
    const std::size_t bar = line.find('|');
    const std::size_t begin = line.find_first_not_of(' ');
    if (bar == std::string::npos) continue;
    if (begin != bar) {
      if (line[begin] >= '0' && line[begin] <= '9') number = std::strtoul(line.c_str() + begin, nullptr, 10);
      continue;
    }
    const std::size_t at = line.find_first_of("^~", bar);
    if (at == std::string::npos || at < bar + 2) continue;
    problem.place = {number, at - bar - 1};
    const std::size_t words = line.find_first_not_of("^~- ", at);
    mark = words == std::string::npos ? "" : bare_sentence(line.substr(words));
  }
  const bool nothing_said = problem.what.empty() || problem.what.find("next token") != std::string::npos ||
                            mark.find("next token") != std::string::npos;
  if (nothing_said) {
    problem.what = "this is not a value";
    problem.fix = "A value is a text in quotes, a number, true, false, a list in [ ] or a table in { }.";
  } else if (!mark.empty() && mark != "here" && problem.what.find(mark) == std::string::npos) {
    problem.what += " (" + mark + ")";
  }
  return problem;
}

/// Improves the report of a line with one of the two most common mistakes: a size without quotes, and curly quotes.
void explain_usual_mistakes(FileProblem& problem, std::string_view text) {
  const auto lines = split(text, '\n');
  if (problem.place.line == 0 || problem.place.line > lines.size()) return;
  const std::string line(lines[problem.place.line - 1]);
  if (line.size() > kLongestExplained) return;
  static const std::regex size_without_quotes(R"(([\w.-]+)\s*=\s*([0-9][0-9.]*\s*(?:[KMGT]i?B?|%))\s*(?:#.*)?\r?$)");
  std::smatch found;
  if (std::regex_search(line, found, size_without_quotes)) {
    problem.what = "a size is a text in quotes";
    problem.fix = fmt::format("{} = \"{}\"", found[1].str(), found[2].str());
  } else if (line.find("\u201c") != std::string::npos || line.find("\u201d") != std::string::npos) {
    problem.what = "these are not straight quotes";
    problem.fix = "Write \" in place of \u201c and \u201d.";
  } else if (const std::string code = line.substr(0, line.find('#')); in_ascii(code) != code) {
    problem.what = "a comma, sign or space on this line is full-width";
    problem.fix = fmt::format("Write: {}", trimmed(in_ascii(code)));
  }
}

}  // namespace

std::string place_text(const FileProblem& problem) {
  return fmt::format("{}:{}:{}", problem.file, problem.place.line, problem.place.column);
}

const TomlValue* TomlValue::find(std::string_view wanted) const {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const TomlValue& item) { return item.name == wanted; });
  return found != items.end() ? &*found : nullptr;
}

tl::expected<TomlValue, FileProblem> read_toml(std::string_view text, const std::string& file) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.substr(0, 3) == kByteOrderMark) text.remove_prefix(3);
  if (text.size() > kMaxDocument) {
    return tl::unexpected(
        FileProblem{file, {}, fmt::format("the file is larger than {} KiB", kMaxDocument >> 10), kSee});
  }
  RATION_TRY(check_form(text, file));
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return TomlValue{};
  try {
    std::istringstream stream{std::string(text)};
    return convert(toml::parse<toml::discard_comments, std::map, std::vector>(stream, file), {}, Lines(text));
  } catch (const toml::exception& error) {
    FileProblem problem = problem_of(error, file);
    explain_usual_mistakes(problem, text);
    return tl::unexpected(std::move(problem));
  } catch (const std::exception& error) {
    return tl::unexpected(FileProblem{file, {}, fmt::format("the file cannot be read: {}", error.what()), kSee});
  }
}

}  // namespace ration
