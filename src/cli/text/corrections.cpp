#include "cli/text/corrections.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/command.hpp"
#include "base/gpu_models.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "cli/text/reference.hpp"

namespace ration::cli {
namespace {

using Words = std::vector<std::string>;

bool contains(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool reads_as_size(const std::string& text) { return parse_size(text, kUnlimited, kUnlimited).has_value(); }

std::string name_of(const std::string& option) { return option.substr(0, option.find('=')); }

void erase(Words& words, std::size_t index) { words.erase(words.begin() + static_cast<std::ptrdiff_t>(index)); }

/// Takes the words from `first` on for the program.
void begin_program(Arguments& words, std::size_t first) {
  words.program.insert(words.program.begin(), words.all.begin() + static_cast<std::ptrdiff_t>(first), words.all.end());
  words.all.resize(first);
  words.marked = true;
}

/// Replaces letters of an input method. Returns false if the word has none.
bool put_in_ascii(Arguments& words, std::size_t index) {
  std::string plain = in_ascii(words.all[index]);
  if (plain == words.all[index]) return false;
  const auto comma = plain.find(",--");  // `set train，--limit`
  if (plain.rfind("--", 0) == 0) std::replace(plain.begin(), plain.end(), ' ', '=');
  words.all[index] = plain.substr(0, comma);
  if (comma != std::string::npos)
    words.all.insert(words.all.begin() + static_cast<std::ptrdiff_t>(index) + 1, plain.substr(comma + 1));
  if (words.all[index] != "--") return true;
  erase(words.all, index);
  begin_program(words, index);
  return true;
}

/// Does so for the options and sizes among the first `count` words, and for a value with an option behind its comma:
/// the parser would take such a word for a value.
void put_values_in_ascii(Arguments& words, std::size_t count) {
  for (std::size_t i = 1; i < count; ++i)
    if (const std::string plain = in_ascii(words.all[i]);
        plain.rfind('-', 0) == 0 || plain.find(",--") != std::string::npos || reads_as_size(plain))
      put_in_ascii(words, i);
}

/// Gives an option its own name: `--limit` for `-limit`, `--limt` and `--memory`.
bool name_option(std::string& word, const Words& options) {
  if (word.size() < 2 || word.front() != '-') return false;
  if (const auto digit = word.find_first_of("0123456789");  // `--limit4GiB`
      digit != std::string::npos && contains(options, word.substr(0, digit))) {
    word.insert(digit, "=");
    return true;
  }
  const std::string name = name_of(word), doubled = "-" + name;
  const std::string meant = contains(options, doubled) ? doubled : meant_option(name, options);
  if (meant.empty() || meant == name) return false;
  word.replace(0, name.size(), meant);
  return true;
}

/// Joins a word to the one before: a size and its unit, or the next GPU of a list.
bool join_to_former(Words& words, std::size_t index) {
  if (index < 2) return false;
  std::string& former = words[index - 1];
  const std::string& word = words[index];
  const bool is_number = !word.empty() && word.find_first_not_of("0123456789,") == std::string::npos;
  const bool is_gpu = is_number && (words[index - 2] == "--gpu" || former.rfind("--gpu=", 0) == 0);
  const std::string size = former.substr(former.find('=') + 1);
  if (!is_gpu && (reads_as_size(size) || !reads_as_size(size + word))) return false;
  former += (is_gpu ? "," : "") + word;
  erase(words, index);
  return true;
}

/// Adds MiB to the number behind the option at `index`. TensorFlow's `memory_limit` has no unit and means MiB.
void read_as_mib(Words& words, std::size_t index) {
  const std::size_t equals = words[index].find('=');
  if (equals == std::string::npos && index + 1 == words.size()) return;
  std::string& word = equals == std::string::npos ? words[index + 1] : words[index];
  const std::string size = equals == std::string::npos ? word : word.substr(equals + 1);
  if (!size.empty() && size.find_first_not_of("0123456789") == std::string::npos) word += "MiB";
}

/// Corrects the word at `index`, which the parser does not take. Returns false if nothing is known about it.
bool correct(Arguments& words, std::size_t index, const Words& options) {
  std::string& word = words.all[index];
  const std::string named = name_of(word);
  if (put_in_ascii(words, index) || name_option(word, options) || join_to_former(words.all, index)) {
    if (named == "--memory-limit" || named == "--memory_limit") read_as_mib(words.all, index);
    return true;
  }
  if (words.all[index - 1] == "--sim" && program_taken_for_node(words) == index) {
    begin_program(words, index);
    return true;
  }
  if (contains(options, "--" + word)) {  // `split 0 into 4`
    word.insert(0, "--");
    return true;
  }
  if (words.verb == "set" && reads_as_size(word) && !contains(words.all, "--limit")) {
    words.all.insert(words.all.begin() + static_cast<std::ptrdiff_t>(index), "--limit");
    return true;
  }
  if (words.marked || !takes_program(words.verb) || word.front() == '-') return false;
  const auto engines = std::find(words.all.begin(), words.all.end(), "run");  // `inject docker run IMAGE`
  const bool has_engines = words.verb == "inject" && engines != words.all.end();
  begin_program(words, has_engines ? static_cast<std::size_t>(engines - words.all.begin()) : index);
  return true;
}

}  // namespace

std::string command_line_of(const Arguments& words) {
  std::string line = "ration";
  for (const std::string& word : words.all) line += " " + shell_word(word);
  if (words.marked) line += " --";
  for (const std::string& word : words.program) line += " " + shell_word(word);
  return line;
}

std::optional<std::size_t> program_taken_for_node(const Arguments& words) {
  if (!takes_program(words.verb) || words.marked) return std::nullopt;
  const auto sim = std::find(words.all.begin(), words.all.end(), "--sim");
  if (sim == words.all.end() || sim + 1 == words.all.end() || (sim + 1)->rfind('-', 0) == 0) return std::nullopt;
  const std::string& node = *(sim + 1);
  const bool is_node = node == "demo" || node.ends_with(".toml") || node.find_first_of(":*,") != std::string::npos ||
                       find_gpu_model(node);
  return is_node ? std::nullopt : std::optional<std::size_t>(sim + 1 - words.all.begin());
}

std::string corrected_line(Arguments words, const Words& options, const LineJudge& judge) {
  constexpr int kMostCorrections = 8;
  const auto asks_for_help = [&] { return contains(words.all, "-h") || contains(words.all, "--help"); };
  if (asks_for_help()) return "";
  const std::string typed = command_line_of(words);
  put_values_in_ascii(words, surely_ours(words));
  for (int i = 0; i < kMostCorrections; ++i) {
    const auto verdict = asks_for_help() ? std::optional(LineVerdict{true, words.all.size()}) : judge(words);
    if (!verdict) return "";
    if (!verdict->is_taken && correct(words, verdict->ours, options)) continue;
    if (!verdict->is_taken || command_line_of(words) == typed) return "";
    if (verdict->ours < words.all.size()) begin_program(words, verdict->ours);
    put_values_in_ascii(words, words.all.size());
    return command_line_of(words);
  }
  return "";
}

Result<void> check_behind_program(const Arguments& words, const Words& program) {
  const auto own_limit = [](const std::string& word) { return name_of(word) == "--limit"; };
  const Words own(words.all.begin(), words.all.end() - static_cast<std::ptrdiff_t>(program.size()));
  if (words.marked || std::any_of(own.begin(), own.end(), own_limit) || contains(own, "-l")) return {};
  const auto limit = std::find_if(program.begin(), program.end(), own_limit);
  if (limit == program.end()) return {};
  const bool joined = limit->find('=') != std::string::npos;
  const auto end = joined || limit + 1 == program.end() ? limit + 1 : limit + 2;
  const std::string size = joined ? limit->substr(limit->find('=') + 1) : end == limit + 2 ? *(limit + 1) : "";
  if (!reads_as_size(size)) return {};
  Arguments meant{words.verb, own, {program.begin(), limit}, true}, typed{words.verb, own, program, true};
  meant.all.insert(meant.all.end(), limit, end);
  meant.program.insert(meant.program.end(), end, program.end());
  return fail(
      "E1402",
      fmt::format("--limit {} stands behind {}, so the program would get it and run without a limit.", size,
                  program.front()),
      fmt::format("{}   (if it is an option of the program: {})", command_line_of(meant), command_line_of(typed)), 2);
}

}  // namespace ration::cli
