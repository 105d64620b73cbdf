// The command line: every verb with its options, and the words typed. Used by main(), and by verb_options.cpp, which
// declares the verbs. Promise: a verb runs only after every word has been understood.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cli/session/session.hpp"
#include "cli/text/arguments.hpp"
#include "cli/text/corrections.hpp"

namespace ration::cli {

/// The options of a verb that has none of its own.
struct Nothing {};

class CommandLine {
 public:
  explicit CommandLine(Arguments typed);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CLI::App app;
  Session session;
  Arguments words;

  /// Adds a verb of the table of verbs. `perform` receives the session and the options as typed.
  template <class Options, class Perform>
  std::pair<CLI::App*, Options&> add(const std::string& name, Perform perform) {
    auto typed = std::make_shared<Options>();
    return {add_verb(name, [this, typed, perform] { return perform(session, *typed); }), *typed};
  }
  /// Adds a verb for programs; no help lists it. `takes` is a set of NodeOption.
  template <class Options, class Perform>
  std::pair<CLI::App*, Options&> add_hidden(const std::string& name, unsigned takes, Perform perform) {
    auto typed = std::make_shared<Options>();
    return {add_hidden_verb(name, takes, [this, typed, perform] { return perform(session, *typed); }), *typed};
  }
  /// Adds the options -o, --json, --units and --color.
  void add_output(CLI::App* verb, const std::vector<std::string>& more = {});
  /// Performs the verb that was typed and returns its exit code. Fails with E1001 and other errors of usage.
  [[nodiscard]] Result<int> execute();

 private:
  using Action = std::function<Result<int>()>;

  CLI::App* add_subcommand(const std::string& name, const std::string& summary, unsigned takes, const Action& action);
  CLI::App* add_verb(const std::string& name, const Action& action);
  CLI::App* add_hidden_verb(const std::string& name, unsigned takes, const Action& action);
  void add_node_options(CLI::App* verb, unsigned takes);
  void choose_node(const CLI::App& verb, unsigned takes);
  [[nodiscard]] Result<void> check_dry_run(const CLI::App& verb) const;
  /// Parses the words; performs nothing.
  [[nodiscard]] std::optional<LineVerdict> judge();
  /// Returns an error of usage with the line that was probably meant as its fix, if the parser would take that line.
  [[nodiscard]] Error with_correction(Error error) const;
  [[nodiscard]] Error usage_error(const CLI::ParseError& error) const;
  /// Returns the long options of the verb that was typed, such as `--limit`; empty if there is no such verb.
  [[nodiscard]] std::vector<std::string> options_of_verb() const;

  Action chosen_;
};

/// Adds an option. `type` stands for the value in the help, and tells completion what to list.
template <class Value>
CLI::Option* option(CLI::App* verb, const char* names, Value& value, const char* type, const char* meaning) {
  return verb->add_option(names, value, meaning)->type_name(type);
}

inline CLI::Option* choice(CLI::App* verb, const char* names, std::string& value, const char* type,
                           const std::vector<std::string>& choices, const char* meaning) {
  return option(verb, names, value, type, meaning)->check(CLI::IsMember(choices));
}

/// Declares every verb (verb_options.cpp). For a container's hook, declares the hook's verb alone.
void add_verbs(CommandLine& line);

}  // namespace ration::cli
