// Commands that are shown to be typed: a shell takes each word as it was given.
#include "base/command.hpp"

#include <gtest/gtest.h>
#include <stdio.h>

#include <random>

#include "base/printable.hpp"
#include "base/units.hpp"

namespace ration {
namespace {

using namespace literals;

/// What a shell makes of a line that begins with `printf '%s\0'`.
std::vector<std::string> words_of_shell(const std::string& line) {
  std::FILE* shell = ::popen(("printf '%s\\0' " + line).c_str(), "r");
  std::string said;
  for (int letter = 0; (letter = std::getc(shell)) != EOF;) said += static_cast<char>(letter);
  EXPECT_EQ(::pclose(shell), 0) << line;
  std::vector<std::string> words;
  for (std::size_t at = 0; at < said.size(); at = said.find('\0', at) + 1)
    words.push_back(said.substr(at, said.find('\0', at) - at));
  return words;
}

TEST(Command, AWordIsOnlyAWord) {
  EXPECT_EQ(command({"set", "nlp", "--limit", "8GiB"}), "ration set nlp --limit 8GiB");
  EXPECT_EQ(command({"set", "$(reboot)", "", "--limit", "8GiB"}), "ration set '$(reboot)' --limit 8GiB");
  EXPECT_EQ(shell_word("it's;"), "'it'\\''s;'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("训练"), "训练");
  EXPECT_EQ(shell_word("a\033[2Jb"), "'a?[2Jb'");
  EXPECT_EQ(quoted_words("python x.py  --a=b;reboot"), "python x.py '--a=b;reboot'");
}

TEST(Command, ACommandLineKeepsItsWordsWithTheirQuotesOrWithoutAny) {
  EXPECT_EQ(quoted_words("bash -c 'a  b' it\\'s ''"), "bash -c 'a  b' 'it'\\''s' ''");
  EXPECT_EQ(quoted_words("it's one"), "'it'\\''s' one");  // no quotes of a shell: /proc shows words without any
  std::mt19937 random(7);
  for (int line = 0; line < 500; ++line) {
    std::string once;
    for (auto words = random() % 5; words > 0; --words) {
      std::string text;
      for (auto length = random() % 6; length > 0; --length) text += " '\\\"$;ab\t"[random() % 9];
      once += (once.empty() ? "" : " ") + shell_word(text);
    }
    EXPECT_EQ(quoted_words(once), once);
  }
}

TEST(Command, ASizeIsExactAndShort) {
  EXPECT_EQ(exact_size(8_GiB), "8GiB");
  EXPECT_EQ(exact_size(10_GiB + 512_MiB), "10.5GiB");
  EXPECT_EQ(exact_size(1_GiB + 256_MiB), "1.25GiB");
  EXPECT_EQ(exact_size(1_GiB + 128_MiB), "1152MiB");
  EXPECT_EQ(exact_size(300_MiB), "300MiB");
  EXPECT_EQ(exact_size(3_B), "3B");
}

TEST(Command, AShellReadsWhateverAWordHoldsAsThatWord) {
  std::mt19937 random(5);
  std::string line;
  std::vector<std::string> meant;
  for (int word = 0; word < 2000; ++word) {
    std::string text;
    for (auto length = random() % 8; length > 0; --length) text += static_cast<char>(1 + random() % 255);
    meant.push_back(printable(text));
    line += shell_word(text) + " ";
  }
  EXPECT_EQ(words_of_shell(line), meant);
}

TEST(Command, AShellReadsAWordOfAScriptExactly) {
  std::mt19937 random(7);
  std::vector<std::string> meant{"a\ntouch /tmp/x",  "\n",      "end\n\n", "-e\n",
                                 "100%\n$HOME'\"\\", "\033[2J", "plain",   ""};
  for (int word = 0; word < 1000; ++word) {
    std::string text;
    for (auto length = random() % 8; length > 0; --length) text += static_cast<char>(1 + random() % 255);
    meant.push_back(text);
  }
  for (std::size_t first = 0; first < meant.size(); first += 100) {
    const std::vector<std::string> some(&meant[first], &meant[std::min(first + 100, meant.size())]);
    std::string line;
    for (const std::string& word : some) line += script_word(word) + " ";
    EXPECT_EQ(words_of_shell(line), some);
  }
}

TEST(Command, NoWordOfAScriptBeginsALineOfItsOwn) {
  for (const std::string word : {"a\ntouch /tmp/x", "\n#SBATCH --x", "a\rb", "\033[2J", "a\u2028b", "x\n\ny"})
    EXPECT_TRUE(is_printable(script_word(word))) << script_word(word);
  EXPECT_EQ(script_word("x\n"), "\"$(printf -- 'x')\n\"");
}

TEST(Command, NodeOptionsAreAddedOnceAndOnlyToTheirVerbs) {
  const CommandOptions options{{"ps", {{"--sim", "T4"}, {"--socket", "/a b"}}}, {"set", {{"--sim", "T4"}}}};
  const std::string once = with_command_options("ration ps, then: ration set x --limit 1GiB; ration help", options);
  EXPECT_EQ(once, "ration ps --sim=T4 --socket='/a b', then: ration set --sim=T4 x --limit 1GiB; ration help");
  EXPECT_EQ(with_command_options(once, options), once);
}

}  // namespace
}  // namespace ration
