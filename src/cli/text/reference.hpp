// The texts about verbs beyond their options. --help, the manual pages, the completion and `ration help` are all made
// from this one table, so they cannot differ.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace ration::cli {

struct Example {
  const char* command;
  const char* meaning;
};
/// The purpose by which `ration help` groups the verbs.
enum class Task { kRun, kLook, kShare, kPlan, kAccount, kMachine, kHelp };

/// Options by which a verb takes its node, and whether it needs the daemon; a set of bits.
enum NodeOption : unsigned { kSim = 1, kSocket = 2, kDaemon = 4 };

struct VerbText {
  const char* name;
  Task task;
  unsigned node;        ///< a set of NodeOption
  const char* changes;  ///< actions that change something and take --dry-run; "*" if every use changes something
  const char* summary;
  const char* usage;  ///< the words after `ration NAME`
  const char* details;
  std::vector<Example> examples;
};
[[nodiscard]] const std::vector<VerbText>& verb_texts();
[[nodiscard]] const VerbText& verb_text(const std::string& name);
/// Returns true if `ration VERB ACTION` changes anything. `action` is empty for a verb without actions.
[[nodiscard]] bool changes_state(const VerbText& verb, const std::string& action);

struct Topic {
  const char* name;
  const char* summary;
  std::string text;
};
[[nodiscard]] const std::vector<Topic>& topics();

/// A word of another tool, and the command or the topic that means the same.
struct Habit {
  const char* word;
  const char* meant;
};
/// Returns the commands for words that are no verbs, with NAME for a workload: `ration stop NAME` for `kill`.
[[nodiscard]] const std::vector<Habit>& verb_habits();
/// Returns the topics and verbs whose help other words ask for: `containers` for `docker`.
[[nodiscard]] const std::vector<Habit>& topic_habits();
/// Returns the option that was meant by one that does not exist: another tool's by its meaning, else by its spelling;
/// empty if none is near.
[[nodiscard]] std::string meant_option(const std::string& name, const std::vector<std::string>& options);
/// Returns ` Did you mean '--limit'?` for an option that does not exist; empty if none is near.
[[nodiscard]] std::string option_suggestion(const std::string& typed, const std::vector<std::string>& options);
/// Returns what a word means, or null.
[[nodiscard]] const char* meant_by(const std::vector<Habit>& habits, std::string_view word);

struct ErrorText {
  const char* id;
  const char* meaning;
  const char* fix;
  const char* page = "";  // of the manual, with more about it; may be empty
};
/// Returns every error by number. A test compares the table with the sources.
[[nodiscard]] const std::vector<ErrorText>& error_texts();

/// Returns the verb of that name that the help lists; null if there is none.
[[nodiscard]] const CLI::App* find_verb(const CLI::App& app, const std::string& name);
/// Returns the long names of a verb's options, such as `--limit`.
[[nodiscard]] std::vector<std::string> long_options(const CLI::App& verb);

/// Returns three lines that say what ration is and how to begin.
[[nodiscard]] std::string introduction();
/// Returns the text that `ration` prints without a verb.
[[nodiscard]] std::string overview();
/// Returns the list of verbs, grouped by Task.
[[nodiscard]] std::string verb_list();
/// Returns the usage and the options of a verb (`-h`). With `everything` (`--help`), examples and details come first.
[[nodiscard]] std::string verb_help(const CLI::App& verb, bool everything);
/// Returns the manual page of a verb, in the language of man(7).
[[nodiscard]] std::string verb_page(const CLI::App& verb);
[[nodiscard]] std::string topic_page(const Topic& topic);
/// Returns the manual page ration.toml(5), made from the table of keys.
[[nodiscard]] std::string configuration_page();
[[nodiscard]] std::string overview_page();

}  // namespace ration::cli
