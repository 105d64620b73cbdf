#include "cli/text/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/strings.hpp"
#include "base/utf8.hpp"
#include "cli/text/reference.hpp"

namespace ration::cli {

bool takes_program(const std::string& verb) {
  return verb == "run" || verb == "record" || verb == "whatif" || verb == "sim" || verb == "inject" ||
         verb == "snippet" || verb == "jupyter" || verb == "candidates";
}

namespace {

/// Returns the options that name the node in an unfinished line. Leaves out the last word, which is still being typed.
std::vector<std::string> node_options(const std::vector<std::string>& line) {
  std::vector<std::string> options;
  for (std::size_t i = 0; i + 1 < line.size() && line[i] != "--"; ++i) {
    const bool named = line[i] == "--socket" && i + 2 < line.size();
    if (line[i].rfind("--sim=", 0) == 0 || line[i].rfind("--socket=", 0) == 0 || line[i] == "--sim")
      options.push_back(line[i]);
    else if (named)
      options.push_back("--socket=" + line[++i]);
  }
  return options;
}

}  // namespace

void mark_program(Arguments& words) {
  const auto mark = std::find(words.all.begin(), words.all.end(), "--");
  if (!takes_program(words.verb) || mark == words.all.end()) return;
  words.marked = true;
  words.program.assign(mark + 1, words.all.end());
  words.all.erase(mark, words.all.end());
}

Arguments split_arguments(int argc, char** argv) {
  Arguments words;
  words.all.assign(argv + 1, argv + argc);
  if (const std::string name = argv[0]; name.substr(name.rfind('/') + 1) == "rationd")
    words.all.insert(words.all.begin(), "serve");
  if (words.all.empty()) return words;
  words.verb = words.all.front();
  mark_program(words);
  if (words.verb == "candidates" && words.marked)
    for (std::string& option : node_options(words.program)) words.all.push_back(std::move(option));
  return words;
}

std::size_t surely_ours(const Arguments& words) { return words.verb == "run" && !words.marked ? 0 : words.all.size(); }

Result<void> check_values(const Arguments& words, std::size_t count) {
  const bool of_service = words.verb == "serve";
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& word = words.all[i];
    std::string what;
    if (word.size() > 3 && word.compare(0, 2, "--") == 0 && word.find('=') == word.size() - 1)
      what = fmt::format("{} has no value.", word);
    else if (word.empty() && i == 0)
      what = "the first word is empty.";
    else if (word.empty() && !(of_service && words.all[i - 1] == "--listen"))
      what = fmt::format("the word after '{}' is empty.", words.all[i - 1]);
    if (!what.empty())
      return fail("E1001", what,
                  fmt::format("ration {}   (in a script, \"${{LIMIT:?}}\" stops where LIMIT is not set)",
                              words.verb.empty() ? "help" : words.verb + " --help"),
                  2);
  }
  return {};
}

namespace {

/// Returns the name of an option with two hyphens: `--limit` for `-limit=4GiB`, `——limit` and `--limit＝4GiB`.
std::string with_two_hyphens(const std::string& word) {
  std::string name = in_ascii(word);
  name.resize(std::min(name.size(), name.find_first_of("= ")));
  if (name.size() > 2 && name[0] == '-' && name[1] != '-') name.insert(0, 1, '-');
  return name;
}

}  // namespace

std::optional<std::size_t> first_without_hyphens(const Arguments& words, std::size_t count,
                                                 const std::vector<std::string>& options) {
  const auto is_option = [&](const std::string& name) {
    return std::find(options.begin(), options.end(), name) != options.end();
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& word = words.all[i];
    if (is_option(with_two_hyphens(word)) && !is_option(word.substr(0, word.find('=')))) return i;
  }
  return std::nullopt;
}

Result<void> check_hyphens(const Arguments& words, std::size_t count, const std::vector<std::string>& options) {
  const auto wrong = first_without_hyphens(words, count, options);
  if (!wrong) return {};
  const std::string& word = words.all[*wrong];
  return fail("E1001", fmt::format("'{}' is not an option. Did you mean '{}'?", word, with_two_hyphens(word)),
              fmt::format("ration {} --help", words.verb), 2);
}

Result<void> check_before_program(const Arguments& words, const std::vector<std::string>& before,
                                  const std::vector<std::string>& options) {
  if (before.empty()) return {};
  const std::string& first = before.front();
  if (const std::string plain = in_ascii(first); first.rfind('-', 0) != 0 && plain.rfind('-', 0) == 0)
    return fail("E1402",
                fmt::format("'{}' {} a long or full-width dash, not {}.", first, plain == "--" ? "is" : "begins with",
                            plain == "--" ? "two hyphens" : "a hyphen"),
                "Write: ration run --limit 4GiB -- PROGRAM …", 2);
  if (first.size() > 1 && first.front() == '-') {
    const std::string meant = option_suggestion(first, options);
    if (words.marked)
      return fail("E1402", fmt::format("run has no option '{}'.{}", first, meant), "ration run --help", 2);
    return fail("E1402",
                fmt::format("no '--' before the program: '{}' was read as an option of ration.{}", first, meant),
                "Write: ration run --limit 4GiB -- PROGRAM …", 2);
  }
  if (words.marked)
    return fail(
        "E1402",
        fmt::format("'{}' before '--' is neither an option nor the value of an option; nothing was started.", first),
        "Put quotes around a value that contains spaces, and write the program after --: ration run --help", 2);
  return {};
}

}  // namespace ration::cli
