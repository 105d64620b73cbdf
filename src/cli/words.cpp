#include "cli/words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ration::cli {
namespace {

bool starts_programs(const std::string& verb) { return verb == "run" || verb == "sim"; }

}  // namespace

Words words_typed(int argc, char** argv) {
  Words words;
  words.all.assign(argv + 1, argv + argc);
  if (const std::string name = argv[0]; name.substr(name.rfind('/') + 1) == "rationd")
    words.all.insert(words.all.begin(), "serve");
  if (words.all.empty()) return words;
  words.verb = words.all.front();
  const auto mark = std::find(words.all.begin(), words.all.end(), "--");
  if (!starts_programs(words.verb) || mark == words.all.end()) return words;
  words.marked = true;
  words.program.assign(mark + 1, words.all.end());
  words.all.erase(mark, words.all.end());
  return words;
}

std::size_t surely_ours(const Words& words) { return words.verb == "run" && !words.marked ? 0 : words.all.size(); }

Result<void> check_values(const Words& words, std::size_t count) {
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
                  fmt::format("ration {}   (in a script: \"${{LIMIT:?}}\" stops where LIMIT is not set)",
                              words.verb.empty() ? "help" : words.verb + " --help"),
                  2);
  }
  return {};
}

}  // namespace ration::cli
