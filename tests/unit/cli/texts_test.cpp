// What a text tells somebody to type can be typed: its verb, options and topics exist. Walks the errors, the help, and
// every text of the sources.
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <utility>

#include "../temporary.hpp"
#include "cli/command_line.hpp"
#include "cli/text/reference.hpp"

namespace ration::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

Arguments typed_words(Words words) {
  words.insert(words.begin(), "ration");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return split_arguments(static_cast<int>(pointers.size()), pointers.data());
}

/// Splits as a shell does. A quote within a word of prose is an apostrophe.
Words shell_words(const std::string& line) {
  Words words;
  std::string word;
  bool within = false, begun = false;
  for (const char letter : line + " ") {
    if (letter == '\'' && (within || !begun || word.back() == '=')) {
      within = !within;
      begun = true;
    } else if (letter != ' ' || within) {
      word += letter;
      begun = true;
    } else if (std::exchange(begun, false)) {
      words.push_back(std::exchange(word, {}));
    }
  }
  return words;
}

bool has_help(const CLI::App& app, const std::string& name) {
  const auto is = [&](const auto& each) { return name == each; };
  return find_verb(app, name) != nullptr ||
         std::any_of(topics().begin(), topics().end(), [&](const Topic& topic) { return is(topic.name); }) ||
         std::any_of(error_texts().begin(), error_texts().end(), [&](const ErrorText& error) { return is(error.id); });
}

/// Returns why the command line does not take these words after `ration`; empty: it does.
std::string wrong_with(const Words& words) {
  CommandLine line(typed_words(words));
  if (words.size() > 1 && words[0] == "help" && words[1] != "VERB" && !has_help(line.app, words[1]))
    return "no help on " + words[1];
  testing::internal::CaptureStdout();  // of --help
  std::string wrong;
  try {
    line.app.parse(Words(line.words.all.rbegin(), line.words.all.rend()));
  } catch (const CLI::Success&) {
  } catch (const CLI::ParseError& error) {
    wrong = error.what();
  }
  (void)testing::internal::GetCapturedStdout();
  if (words[0] == "run")
    for (const std::string& rest : line.app.get_subcommand("run")->remaining())
      if (rest[0] == '-') wrong = rest + " is no option of run";
  return wrong;
}

bool is_verb(const std::string& word) {
  static const CommandLine line(typed_words({"help"}));
  return !line.app.get_subcommands([&](const CLI::App* verb) { return verb->get_name() == word; }).empty();
}

/// The command that begins at `at`, without what follows it in a sentence, or beyond its quotes.
std::string command_at(const std::string& text, std::size_t at) {
  std::size_t end = std::min(text.find("ration ", at), text.size());
  const char before = at >= 8 ? text[at - 8] : ' ';  // the letter before `ration `
  if (before == '\'' || before == '`') end = std::min(end, text.find(before, at));
  for (const char* mark :
       {"   ", "\n", " (", ", ", ": ", "; ", " \u00b7 ", ") ", " | ", " > ", " && ", " ?", "` ", ". "})
    end = std::min(end, text.find(mark, at));
  while (end > at && std::string_view(".,:;)").find(text[end - 1]) != std::string_view::npos) --end;
  return std::regex_replace(text.substr(at, end - at), std::regex("<[^>]*>"), "x");
}

/// Checks every command of `text`, and returns how many there are. A text that begins with one, and is no sentence, is
/// to be typed as it stands, up to three spaces or a punctuation mark. Elsewhere a command may be named without its
/// values, and prose may follow its last option.
int check(const std::string& where, const std::string& text) {
  const std::regex begin(R"((^|[^\w/.-])ration ([a-z][a-z-]*))");
  int commands = 0;
  for (std::sregex_iterator each(text.begin(), text.end(), begin), end; each != end; ++each) {
    Words words = shell_words(command_at(text, static_cast<std::size_t>(each->position(2))));
    if (words.empty()) continue;
    if (!is_verb(words[0])) {  // a sentence about ration
      EXPECT_TRUE(std::none_of(words.begin(), words.end(), [](const auto& word) { return word.starts_with("--"); }))
          << where << ": no verb '" << words[0] << "' in: " << text;
      continue;
    }
    ++commands;
    std::string wrong = wrong_with(words);
    if (each->position(2) == 7 && text.find('\n') == std::string::npos && text.back() != '.') {
      const auto is_program = [](const std::string& word) { return word == "--" || word == "--help" || word == "…"; };
      if (words[0] == "run" && words.size() > 1 && std::none_of(words.begin(), words.end(), is_program))
        wrong += "no program";
    } else {
      for (; !wrong.empty() && words.size() > 1 && words.back()[0] != '-'; wrong = wrong_with(words)) words.pop_back();
      if (!wrong.empty() && words.size() > 1) {
        words.emplace_back("1GiB");
        wrong = wrong_with(words);
      }
    }
    EXPECT_TRUE(wrong.empty() || words.size() == 1) << where << ": " << wrong << ": " << text;
  }
  return commands;
}

/// The texts of a source: string literals that adjoin each other as one, a list of command({…}) as the line that it
/// makes. What is filled in is 1.
Words texts_of(const fs::path& source) {
  std::stringstream whole;
  whole << std::ifstream(source).rdbuf();
  std::string code = std::regex_replace(whole.str(), std::regex(R"((^|\n)\s*//[^\n]*)"), "\n");
  code = std::regex_replace(code, std::regex(R"("\s*\n\s*")"), "");
  Words texts;
  const std::regex literal(R"re("((?:[^"\\\n]|\\.)*)")re"), filled(R"(\{[^{} ]*\})");
  const auto text_in = [&](const std::string& literals) {
    std::smatch found;
    std::string last;
    for (auto at = literals.cbegin(); std::regex_search(at, literals.cend(), found, literal); at = found[0].second)
      if (found[1].length() > 0) last = found[1];
    return last;
  };
  const std::regex list(R"(command\(\{)");
  for (std::sregex_iterator each(code.begin(), code.end(), list), end; each != end; ++each) {
    std::string line = "ration", word;
    int depth = 0;
    bool within = false;
    for (auto at = static_cast<std::size_t>(each->position(0) + each->length(0)); depth >= 0; ++at) {
      within ^= code[at] == '"';
      if (!within) depth += (code[at] == '(' || code[at] == '{') - (code[at] == ')' || code[at] == '}');
      if (!within && ((code[at] == ',' && depth == 0) || depth < 0)) {
        const std::string text = text_in(word);
        line += " " + (text.empty() || word.find(" + ") != std::string::npos || word.find("fmt::") != std::string::npos
                           ? "1"
                           : text);
        word.clear();
      } else {
        word += code[at];
      }
    }
    texts.push_back(line);
  }
  for (std::sregex_iterator each(code.begin(), code.end(), literal), end; each != end; ++each)
    if (const std::string text = (*each)[1]; text.find("ration ") != std::string::npos)
      texts.push_back(std::regex_replace(std::regex_replace(text, std::regex(R"(\\n)"), "\n"), filled, "1"));
  return texts;
}

TEST(Texts, EveryCommandThatAnErrorTellsToTypeIsUnderstood) {
  int commands = 0;
  for (const ErrorText& error : error_texts()) commands += check(error.id, error.fix);
  EXPECT_GT(commands, 40);
}

TEST(Texts, EveryCommandInTheSourcesIsUnderstood) {
  int commands = 0;
  for (const char* top : {"/src", "/libration", "/sim/workload"})
    for (const auto& entry : fs::recursive_directory_iterator(std::string(RATION_SOURCES) + top))
      if (const auto ending = entry.path().extension(); ending == ".cpp" || ending == ".hpp" || ending == ".inc")
        for (const std::string& text : texts_of(entry.path())) commands += check(entry.path().filename(), text);
  EXPECT_GT(commands, 300);
}

TEST(Texts, EveryWordOfAnotherToolLeadsToACommandOrATopic) {
  const CommandLine line(typed_words({"help"}));
  for (const Habit& habit : verb_habits()) {
    EXPECT_FALSE(is_verb(habit.word)) << habit.word << " is a verb of its own";
    EXPECT_EQ(check(habit.word, habit.meant), 1) << habit.word;
  }
  for (const Habit& habit : topic_habits()) {
    EXPECT_FALSE(has_help(line.app, habit.word)) << habit.word << " has help of its own";
    EXPECT_TRUE(has_help(line.app, habit.meant)) << habit.word;
  }
}

TEST(Texts, EveryCommandOfTheHelpIsUnderstood) {
  int commands = 0;
  for (const VerbText& verb : verb_texts()) commands += check(verb.name, verb.details);
  for (const Topic& topic : topics()) commands += check(topic.name, topic.text);
  EXPECT_GT(commands, 60);
}

}  // namespace
}  // namespace ration::cli
