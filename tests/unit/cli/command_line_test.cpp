// What is typed is understood whole before anything is done, and the tables of verbs, options and texts agree.
#include "cli/command_line.hpp"

#include <sstream>

#include "../temporary.hpp"
#include "cli/text/reference.hpp"

namespace ration::cli {
namespace {

Arguments typed(std::vector<std::string> words) {
  std::vector<char*> pointers;
  std::string program = "ration";
  pointers.push_back(program.data());
  for (std::string& word : words) pointers.push_back(word.data());
  return split_arguments(static_cast<int>(pointers.size()), pointers.data());
}

struct Numbers {
  int number = 0;
};

class CommandLineTest : public ::testing::Test {
 protected:
  /// With a verb of the test's own, which returns its number.
  std::string outcome(std::vector<std::string> words) {
    CommandLine line(typed(std::move(words)));
    const auto added = line.add_hidden<Numbers>("count", kSim | kSocket, [&](const Session& session, Numbers numbers) {
      ++performed_;
      session_ = session;
      return Result<int>(numbers.number);
    });
    added.first->add_option("--number", added.second.number);
    const auto done = line.execute();
    return done ? std::to_string(*done) : done.error().id + " " + done.error().what;
  }

  TemporaryFolder folder_;
  TemporaryVariable runtime_{"RATION_RUNTIME_DIR", folder_.path().c_str()};
  TemporaryVariable sim_{"RATION_SIM", nullptr}, socket_{"RATION_SOCKET", nullptr};
  int performed_ = 0;
  Session session_;
};

TEST_F(CommandLineTest, AVerbRunsOnceAndItsExitCodeIsReturned) {
  EXPECT_EQ(outcome({"count", "--number", "7"}), "7");
  EXPECT_EQ(performed_, 1);
}

TEST_F(CommandLineTest, NothingRunsWhereAnyWordIsNotUnderstood) {
  EXPECT_EQ(outcome({"count", "--number", "7", "--nubmer", "8"}).substr(0, 5), "E1001");
  EXPECT_EQ(outcome({"ps", "--sotr", "used"}), "E1001 '--sotr' is not known here. Did you mean '--sort'?");
  EXPECT_EQ(outcome({"count", "--number", "many"}).substr(0, 5), "E1001");
  EXPECT_EQ(outcome({"count", "--number="}), "E1001 --number= has no value.");
  EXPECT_EQ(outcome({"count", "--number", ""}), "E1001 the word after '--number' is empty.");
  EXPECT_EQ(outcome({"cuont"}), "E1001 there is no command 'cuont'.");
  EXPECT_EQ(outcome({"explian"}), "E1001 there is no command 'explian'. Did you mean 'explain'?");
  EXPECT_EQ(outcome({"--count"}), "E1001 there is no option '--count'.");
  EXPECT_EQ(performed_, 0);
}

TEST_F(CommandLineTest, WhatAVerbNeedsIsNamedWithItsChoices) {
  EXPECT_EQ(outcome({"config"}), "E1001 config needs ACTION: init, print, validate, path, reload.");
  EXPECT_EQ(outcome({"config", "set"}), "E1001 'set' is not a valid ACTION: init, print, validate, path, reload.");
  EXPECT_EQ(outcome({"inspect"}), "E1001 inspect needs FILE.");
  EXPECT_EQ(outcome({"record"}), "E1001 record needs --out FILE.");
  EXPECT_EQ(outcome({"snippet"}).substr(0, 38), "E1001 snippet needs KIND: docker, comp");
  EXPECT_EQ(outcome({"ps", "--color", "red"}), "E1001 'red' is not a valid WHEN: auto, always, never.");
}

TEST_F(CommandLineTest, AWordOfAnotherToolIsAnsweredWithTheCommandThatDoesTheSame) {
  const auto fix = [&](std::vector<std::string> words) {
    CommandLine line(typed(std::move(words)));
    const auto done = line.execute();
    return done ? "" : done.error().fix;
  };
  EXPECT_EQ(fix({"kill", "train"}), "ration stop train");
  EXPECT_EQ(fix({"rm", "-f", "train"}), "ration stop NAME");
  EXPECT_EQ(fix({"pause", "my job"}), "ration suspend 'my job'");
  EXPECT_EQ(fix({"status"}), "ration ps");
  EXPECT_EQ(fix({"set", "train", "much"}), "ration set --help");
  for (const char* option : {"--memory_limit", "--memory-limit", "--mem=4096"})
    EXPECT_NE(outcome({"run", option, "4096", "--", "true"}).find("Did you mean '--limit'?"), std::string::npos)
        << option;
  EXPECT_NE(outcome({"set", "train", "-m", "9GiB"}).find("Did you mean '--limit'?"), std::string::npos);
}

TEST_F(CommandLineTest, AMistypedLineIsAnsweredWithTheWholeLineThatWasMeant) {
  using Words = std::vector<std::string>;
  const auto fix = [](Words words) {
    const auto done = CommandLine(typed(std::move(words))).execute();
    return done ? "" : done.error().fix;
  };
  const std::vector<std::pair<Words, std::string>> lines{
      {{"set", "train", "9GiB"}, "ration set train --limit 9GiB"},
      {{"set", "train", "-limit", "9", "GiB"}, "ration set train --limit 9GiB"},
      {{"set", "train，--limit", "9GiB"}, "ration set train --limit 9GiB"},
      {{"set", "my job", "--limt=9GiB"}, "ration set 'my job' --limit=9GiB"},
      {{"run", "-limit", "4GiB", "--", "python", "my train.py"}, "ration run --limit 4GiB -- python 'my train.py'"},
      {{"run", "——limit", "4GiB", "python", "train.py"}, "ration run --limit 4GiB -- python train.py"},
      {{"run", "--memory", "4GiB", "python", "x.py", "-v"}, "ration run --limit 4GiB -- python x.py -v"},
      {{"run", "--memory-limit", "4096", "python", "x.py"}, "ration run --limit 4096MiB -- python x.py"},
      {{"run", "--memory_limit=4096", "--", "python", "x.py"}, "ration run --limit=4096MiB -- python x.py"},
      {{"run", "--memory-limit", "4GiB", "--", "true"}, "ration run --limit 4GiB -- true"},
      {{"run", "--memory", "4096", "--", "true"}, "ration run --limit 4096 -- true"},
      {{"run", "--limit", "4", "GiB", "--", "true"}, "ration run --limit 4GiB -- true"},
      {{"run", "--limit=4", "GiB", "--gpu", "0", "1", "--", "true"}, "ration run --limit=4GiB --gpu 0,1 -- true"},
      {{"run", "--limit", "4GiB", "——", "true"}, "ration run --limit 4GiB -- true"},
      {{"run", "python", "train.py", "--limit", "4GiB", "-v"},
       "ration run --limit 4GiB -- python train.py -v   (if it is an option of the program: ration run -- python "
       "train.py --limit 4GiB -v)"},
      {{"run", "--gpu", "1", "python", "train.py", "--limit=50%"},
       "ration run --gpu 1 --limit=50% -- python train.py   (if it is an option of the program: ration run --gpu 1 -- "
       "python train.py --limit=50%)"},
      {{"record", "-o", "a.rec", "python", "x.py"}, "ration record -o a.rec -- python x.py"},
      {{"run", "--sim", "python", "-c", "print(1)"}, "ration run --sim -- python -c 'print(1)'"},
      {{"record", "--sim", "python", "x.py", "-o", "a.rec"}, "ration record --help"},
      {{"run", "--limit4GiB", "--", "true"}, "ration run --limit=4GiB -- true"},
      {{"split", "0", "into", "4"}, "ration split 0 --into 4"},
      {{"pss", "-o", "json"}, "ration ps -o json"},
      {{"rnu", "--limit", "4GiB", "--", "true"}, "ration run --limit 4GiB -- true"},
      {{"explian", "--nothing"}, "ration help"},
      {{"ps；"}, "ration ps"},
      {{"run", "－h"}, "ration run -h"},
      {{"run", "--limit", "４ＧｉＢ", "－－", "true"}, "ration run --limit 4GiB -- true"},
      {{"run", "－limit", "4GiB", "true"}, "ration run --limit 4GiB -- true"},
      {{"inject", "docker", "--limit", "4GiB", "run", "IMAGE"}, "ration inject docker --limit 4GiB -- run IMAGE"},
      {{"run", "--limit", "4GiB", "foo", "--", "true"},
       "Put quotes around a value that contains spaces, and write the program after --: ration run --help"},
      {{"run", "--nothing-like-it", "4GiB", "--", "true"}, "ration run --help"},
  };
  for (const auto& [words, meant] : lines) EXPECT_EQ(fix(words), meant);
  EXPECT_EQ(fix({"ps", "--sotr", "used"}), "ration ps --sort used");
  EXPECT_EQ(fix({"ps", "--sotr", "used", "--nothing-like-it"}), "ration ps --help") << "a line with another mistake";
  EXPECT_EQ(outcome({"set", "--limit", "9GiB"}), "E1001 set needs the name of a workload or a tenant before --limit.");
}

TEST_F(CommandLineTest, ASizeThatNoDeviceCouldHaveIsRefusedBeforeAnyDeviceIsAsked) {
  EXPECT_EQ(outcome({"set", "nlp", "--limit", "8"}).substr(0, 5), "E1101");
  EXPECT_EQ(outcome({"set", "nlp", "--limit", "+8"}).substr(0, 5), "E1101") << "a step is a size, too";
  EXPECT_EQ(outcome({"set", "nlp", "--limit", "8Gib/s"}).substr(0, 5), "E1102");
  EXPECT_EQ(outcome({"run", "--limit", "0.5", "--", "true"}).substr(0, 5), "E1103");
  EXPECT_EQ(outcome({"run", "--limit", "+1GiB", "--", "true"}).substr(0, 5), "E1102") << "only set knows steps";
}

TEST_F(CommandLineTest, ADryRunOfWhatChangesNothingIsRefused) {
  EXPECT_EQ(outcome({"config", "init", "--dry-run", "--limit=x"}).substr(0, 5), "E1001");
  EXPECT_EQ(outcome({"service", "status", "--dry-run"}),
            "E1001 service status changes nothing, so --dry-run has no meaning.");
}

TEST_F(CommandLineTest, WhatIsTypedOfTheNodeGoesBeforeTheEnvironment) {
  const TemporaryVariable sim("RATION_SIM", "L4"), socket("RATION_SOCKET", "/run/env");
  EXPECT_EQ(outcome({"count"}), "0");
  EXPECT_TRUE(session_.simulated);
  EXPECT_EQ(session_.simulated_node, "L4");
  EXPECT_EQ(session_.socket, "/run/env");
  EXPECT_EQ(outcome({"count", "--sim=A30", "--socket=/run/typed"}), "0");
  EXPECT_EQ(session_.simulated_node, "A30");
  EXPECT_EQ(session_.socket, "/run/typed");
  EXPECT_EQ(session_.hint("ration ps"), "ration ps --sim=A30 --socket=/run/typed");
}

TEST_F(CommandLineTest, WithoutANodeItIsTheMachine) {
  EXPECT_EQ(outcome({"count"}), "0");
  EXPECT_FALSE(session_.simulated);
  EXPECT_EQ(session_.socket, "");
  EXPECT_EQ(outcome({"count", "--sim"}), "0");
  EXPECT_TRUE(session_.simulated);
  EXPECT_EQ(session_.context.simulated, "T4") << "where no node is named";
}

/// As a shell splits it, for the examples' simple quotes.
std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> words;
  bool within = false, begun = false;
  std::string word;
  for (const char letter : line + " ") {
    if (letter == '\'') {
      within = !within;
      begun = true;
    } else if (letter == ' ' && !within) {
      if (begun) words.push_back(word);
      word.clear();
      begun = false;
    } else {
      word += letter;
      begun = true;
    }
  }
  return words;
}

TEST_F(CommandLineTest, EveryExampleOfEveryVerbIsUnderstood) {
  int examples = 0;
  for (const VerbText& verb : verb_texts())
    for (const Example& example : verb.examples) {
      std::vector<std::string> words = split(example.command);
      if (words.front() != "ration" ||
          std::string_view(example.command).find_first_of("|$<>&") != std::string_view::npos)
        continue;
      words.erase(words.begin());
      CommandLine line(typed(words));
      std::reverse(line.words.all.begin(), line.words.all.end());
      ++examples;
      try {
        line.app.parse(line.words.all);
      } catch (const CLI::ParseError& error) {
        ADD_FAILURE() << example.command << ": " << error.what();
      }
    }
  EXPECT_GT(examples, 60);
}

TEST_F(CommandLineTest, EveryVerbThatIsShownHasItsTextAndEveryOptionItsMeaning) {
  const CommandLine line(typed({"help"}));
  for (const CLI::App* verb :
       line.app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); })) {
    EXPECT_EQ(verb_text(verb->get_name()).name, verb->get_name());
    EXPECT_EQ(find_verb(line.app, verb->get_name()), verb);
    for (const CLI::Option* option : verb->get_options())
      if (!option->get_positional() && !option->get_group().empty()) {
        EXPECT_FALSE(option->get_description().empty()) << verb->get_name() << " " << option->get_name();
      }
  }
  EXPECT_EQ(find_verb(line.app, "candidates"), nullptr) << "that one is for shells";
  EXPECT_EQ(find_verb(line.app, "nothing"), nullptr);
}

TEST_F(CommandLineTest, HelpHasEveryOptionAndNoLineBeyondTheTerminal) {
  const CommandLine line(typed({"help"}));
  for (const VerbText& text : verb_texts()) {
    const CLI::App& verb = *find_verb(line.app, text.name);
    for (const bool everything : {false, true}) {
      const std::string help = verb_help(verb, everything);
      EXPECT_NE(help.find(std::string("usage: ration ") + text.name), std::string::npos);
      for (const std::string& option : long_options(verb)) EXPECT_NE(help.find(option), std::string::npos) << option;
      std::istringstream lines(help);
      for (std::string each; std::getline(lines, each);)
        if (each.rfind("usage: ", 0) != 0 && each.rfind("  ration", 0) != 0 && each.rfind("      ", 0) != 0) {
          EXPECT_LE(each.size(), 82U) << text.name << ": " << each;
        }
    }
    EXPECT_NE(overview().find(text.name), std::string::npos);
    EXPECT_NE(verb_list().find(text.summary), std::string::npos);
  }
}

/// Lines that a page may begin with a dot; everything else that does would be taken for one.
bool is_request(const std::string& line) {
  for (const char* request : {".TH ", ".SH ", ".TP", ".B ", ".BR ", ".br", ".nf", ".fi", ".nh", ".ad l"})
    if (line.rfind(request, 0) == 0) return true;
  return false;
}

TEST_F(CommandLineTest, ManualPagesHoldPlainTextAndKnownRequestsAlone) {
  const CommandLine line(typed({"help"}));
  std::vector<std::string> pages{overview_page(), configuration_page()};
  for (const VerbText& text : verb_texts()) pages.push_back(verb_page(*find_verb(line.app, text.name)));
  for (const Topic& topic : topics()) pages.push_back(topic_page(topic));
  for (const std::string& page : pages) {
    std::istringstream lines(page);
    for (std::string each; std::getline(lines, each);) {
      if (!each.empty() && (each.front() == '.' || each.front() == '\'')) {
        EXPECT_TRUE(is_request(each)) << each;
      }
      EXPECT_TRUE(std::all_of(each.begin(), each.end(), [](char letter) { return letter >= 0x20 && letter < 0x7f; }))
          << each;
    }
  }
}

TEST(Reference, OnlyTheActionsThatChangeSomethingDo) {
  EXPECT_TRUE(changes_state(verb_text("run"), ""));
  EXPECT_FALSE(changes_state(verb_text("ps"), ""));
  EXPECT_TRUE(changes_state(verb_text("service"), "install"));
  EXPECT_FALSE(changes_state(verb_text("service"), "status"));
  EXPECT_FALSE(changes_state(verb_text("service"), "inst"));
  EXPECT_FALSE(changes_state(verb_text("service"), ""));
}

}  // namespace
}  // namespace ration::cli
