// What is said about the verbs beyond their options: one table, from which --help, the manual pages, the completion and
// `ration help` are all made, so that they cannot differ.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ration::cli {

struct Example {
  const char* command;
  const char* meaning;
};
/// What somebody wants to do: `ration help` groups the verbs by it.
enum class Task { kRun, kLook, kShare, kPlan, kAccount, kMachine, kHelp };

/// Which node a verb is about: the options that say so.
enum NodeOption : unsigned { kSim = 1, kSocket = 2 };

struct VerbText {
  const char* name;
  Task task;
  unsigned node;        ///< of NodeOption
  const char* changes;  ///< the actions that change something, so that --dry-run shows them; "*": the verb itself
  const char* summary;
  const char* usage;  ///< after `ration NAME`
  const char* details;
  std::vector<Example> examples;
};
[[nodiscard]] const std::vector<VerbText>& verb_texts();
[[nodiscard]] const VerbText& verb_text(const std::string& name);
/// Whether `ration VERB ACTION` changes anything; `action` is empty where the verb has none.
[[nodiscard]] bool changes_state(const VerbText& verb, const std::string& action);

struct Topic {
  const char* name;
  const char* summary;
  std::string text;
};
[[nodiscard]] const std::vector<Topic>& topics();

struct ErrorText {
  const char* id;
  const char* meaning;
  const char* fix;
};
/// Every error there is, by number. A test holds it against the source.
[[nodiscard]] const std::vector<ErrorText>& error_texts();

/// Of those for people; null: there is none.
[[nodiscard]] const CLI::App* find_verb(const CLI::App& app, const std::string& name);
/// `--limit` and so on.
[[nodiscard]] std::vector<std::string> long_options(const CLI::App& verb);

/// What ration is, and where to begin.
[[nodiscard]] std::string introduction();
/// What `ration` alone prints.
[[nodiscard]] std::string overview();
/// Every verb, by what somebody wants to do.
[[nodiscard]] std::string verb_list();
/// `-h`: usage and options; `--help`: examples first, then all.
[[nodiscard]] std::string verb_help(const CLI::App& verb, bool everything);
/// The page of a verb in the manual's language (man(7)).
[[nodiscard]] std::string verb_page(const CLI::App& verb);
[[nodiscard]] std::string topic_page(const Topic& topic);
/// ration.toml(5), from the table of keys.
[[nodiscard]] std::string configuration_page();
[[nodiscard]] std::string overview_page();

}  // namespace ration::cli
