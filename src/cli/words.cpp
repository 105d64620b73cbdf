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
  words.program.assign(mark + 1, words.all.end());
  words.all.erase(mark, words.all.end());
  return words;
}

Result<void> check_values(const Words& words) {
  if (starts_programs(words.verb) && words.program.empty()) return {};
  const auto ours = std::find(words.all.begin(), words.all.end(), "--");
  const auto empty = std::find_if(words.all.begin(), ours, [](const std::string& word) {
    return word.size() > 3 && word.compare(0, 2, "--") == 0 && word.back() == '=';
  });
  if (empty == ours) return {};
  return fail("E1001", fmt::format("{} has no value.", *empty), fmt::format("ration {} --help", words.verb), 2);
}

}  // namespace ration::cli
