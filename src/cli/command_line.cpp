#include "cli/command_line.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "admission/plan.hpp"
#include "base/command.hpp"
#include "base/own_folder.hpp"
#include "base/size_step.hpp"
#include "base/strings.hpp"
#include "base/utf8.hpp"
#include "cli/start/demo_node.hpp"
#include "cli/text/reference.hpp"

namespace ration::cli {
namespace {

/// Returns the value of an environment variable; empty if it is not set.
std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Returns E1101 to E1104 for a size that is invalid on every device. Called before any device is queried.
Result<void> check_sizes(const CLI::App& verb) {
  for (const auto* option : verb.get_options()) {
    if (option->get_type_name() != "SIZE") continue;
    for (const std::string& text : option->results()) {
      const bool step = verb.get_name() == "set" && is_step(text);
      if (text == "none") continue;
      const char* place = option->check_lname("host-limit") ? "machine" : "GPU";
      if (auto size = (step ? parse_step : parse_size)(text, kUnlimited, kUnlimited, place); !size)
        if (size.error().id != "E1101" || !admission::takes_guarantee_away(text)) return tl::unexpected(size.error());
    }
  }
  return {};
}

/// Returns what a verb takes for an option, with its choices if it has some: `KIND: docker, compose`.
std::string taken(const CLI::App& verb, const std::string& option) {
  const CLI::Option* found = verb.get_option_no_throw(option);
  std::string text = found == nullptr ? option : found->get_type_name();
  const auto choices = text.find(":{");
  if (choices == std::string::npos) return text;
  std::string list = text.substr(choices + 2);
  list.resize(list.find('}'));
  for (std::size_t at = 0; (at = list.find(',', at)) != std::string::npos; at += 2) list.insert(at + 1, " ");
  return text.substr(0, choices) + ": " + list;
}

/// Returns what is wrong with the words after a verb. The library's own sentences speak of the names of its options.
std::string in_words(const CLI::ParseError& error, const CLI::App& verb) {
  const std::string what = error.what();
  const std::string option = what.substr(0, what.find_first_of(" :"));
  if (error.get_name() == "RequiresError" && option.rfind("--", 0) == 0 && verb.get_name() == "set")
    return fmt::format("{} needs the name of a workload or a tenant before {}.", verb.get_name(), option);
  if (error.get_name() == "RequiredError") {
    const bool named = option.rfind("--", 0) == 0;
    return fmt::format("{} needs {}{}.", verb.get_name(), named ? option + " " : "", taken(verb, option));
  }
  const auto value = what.find(": "), list = what.find(" not in {");
  if (value == std::string::npos || list == std::string::npos || list < value) return what;
  const std::string typed = what.substr(value + 2, list - value - 2);
  const std::size_t first = what.find('{', list) + 1;
  std::vector<std::string> choices;
  for (const std::string_view choice : split(std::string_view(what).substr(first, what.rfind('}') - first), ','))
    choices.emplace_back(choice);
  return fmt::format("'{}' is not a valid {}.{}", typed, taken(verb, option), suggestion(typed, choices));
}

/// Returns a word without the marks of an input method at its end: `ps` for `ps；`.
std::string without_marks(const std::string& word) {
  std::string plain = in_ascii(word);
  while (!plain.empty() && std::string_view(";,.:!?").find(plain.back()) != std::string_view::npos) plain.pop_back();
  return plain;
}

/// Returns the words in the order in which the parser takes them.
std::vector<std::string> backwards(const std::vector<std::string>& words) { return {words.rbegin(), words.rend()}; }

/// Returns the command with the word that was typed after the verb, if there is one, in the place of NAME.
std::string with_name(std::string text, const std::vector<std::string>& typed) {
  const auto place = text.find("NAME");
  if (place != std::string::npos && typed.size() > 1 && typed[1].front() != '-')
    text.replace(place, std::string_view("NAME").size(), shell_word(typed[1]));
  return text;
}

}  // namespace

CommandLine::CommandLine(Arguments typed) : words(std::move(typed)) {
  app.name("ration");
  app.set_help_flag();
  app.require_subcommand(1);
  app.add_flag_callback("-h,--help", [] {
    fmt::print("{}", overview());
    throw CLI::Success();
  });
  app.add_flag_callback("--version", [] {
    fmt::print("ration {}\n", RATION_VERSION);
    throw CLI::Success();
  });
  add_verbs(*this);
  for (CLI::App* verb : app.get_subcommands([](CLI::App* each) { return !each->get_group().empty(); })) {
    const VerbText& text = verb_text(verb->get_name());
    if (*text.changes != '\0') verb->add_flag("--dry-run", session.dry_run, "show what would be done; change nothing");
    add_node_options(verb, text.node);
  }
}

Result<int> CommandLine::execute() {
  RATION_TRY(check_values(words, surely_ours(words)));
  const auto check_ours = [this](std::size_t count) -> Result<void> {
    auto good = check_hyphens(words, count, options_of_verb());
    if (!good) good = tl::unexpected(with_correction(good.error()));
    return good;
  };
  RATION_TRY(check_ours(surely_ours(words)));
  if (const auto wrong = program_taken_for_node(words))
    return tl::unexpected(with_correction(
        {"E1402",
         fmt::format("'{}' would be the simulated node of --sim, and no model has that name.", words.all[*wrong]),
         fmt::format("ration {} --help", words.verb), 2}));
  try {
    app.parse(backwards(words.all));
  } catch (const CLI::Success&) {
    return 0;
  } catch (const CLI::ParseError& error) {
    return tl::unexpected(with_correction(usage_error(error)));
  }
  const std::size_t program = words.verb == "run" ? app.get_subcommand("run")->remaining_size() : 0;
  RATION_TRY(check_values(words, words.all.size() - program));
  RATION_TRY(check_ours(words.all.size() - program));
  if (program > 0) {
    const CLI::App& verb = *app.get_subcommand("run");
    if (auto good = check_before_program(words, verb.remaining(), long_options(verb)); !good)
      return tl::unexpected(with_correction(good.error()));
    RATION_TRY(check_behind_program(words, verb.remaining()));
  }
  return chosen_();
}

Error CommandLine::with_correction(Error error) const {
  const auto judge = [](const Arguments& line) { return CommandLine(line).judge(); };
  if (const std::string line = corrected_line(words, options_of_verb(), judge); !line.empty()) error.fix = line;
  return error;
}

std::optional<LineVerdict> CommandLine::judge() {
  const CLI::App* verb = find_verb(app, words.verb);
  if (verb == nullptr) return std::nullopt;
  if (const auto wrong = first_without_hyphens(words, surely_ours(words), options_of_verb()))
    return LineVerdict{false, *wrong};
  if (const auto wrong = program_taken_for_node(words)) return LineVerdict{false, *wrong};
  try {
    app.parse(backwards(words.all));
  } catch (const CLI::ParseError&) {
    const auto extra = verb->remaining();
    if (extra.empty()) return std::nullopt;
    const auto wrong = std::find(words.all.begin(), words.all.end(), extra.front());
    return LineVerdict{false, static_cast<std::size_t>(wrong - words.all.begin())};
  }
  const std::vector<std::string> rest = verb->remaining();  // words of the program, if no -- was typed
  const std::size_t ours = words.all.size() - rest.size();
  if (const auto wrong = first_without_hyphens(words, ours, options_of_verb())) return LineVerdict{false, *wrong};
  return LineVerdict{check_before_program(words, rest, {}).has_value(), ours};
}

std::vector<std::string> CommandLine::options_of_verb() const {
  for (const CLI::App* verb :
       app.get_subcommands([this](const CLI::App* each) { return each->get_name() == words.verb; }))
    return long_options(*verb);
  return {};
}

CLI::App* CommandLine::add_subcommand(const std::string& name, const std::string& summary, unsigned takes,
                                      const Action& action) {
  CLI::App* verb = app.add_subcommand(name, summary);
  verb->set_help_flag();
  verb->parse_complete_callback([this, verb, takes, action] {
    choose_node(*verb, takes);
    chosen_ = [this, verb, action]() -> Result<int> {
      RATION_TRY(check_dry_run(*verb));
      RATION_TRY(check_sizes(*verb));
      if (names_demo(session.simulated_node) && verb->get_name() != "serve")  // `serve` makes a node of its own
        RATION_TRY(join_demo(session));
      return action();
    };
  });
  return verb;
}

CLI::App* CommandLine::add_verb(const std::string& name, const Action& action) {
  const VerbText& text = verb_text(name);
  CLI::App* verb = add_subcommand(name, text.summary, text.node, action);
  for (const bool everything : {false, true}) {
    verb->add_flag_callback(
        everything ? "--help" : "-h",
        [verb, everything] {
          fmt::print("{}", verb_help(*verb, everything));
          throw CLI::Success();
        },
        everything ? "show examples and every option" : "show usage and options");
  }
  return verb;
}

CLI::App* CommandLine::add_hidden_verb(const std::string& name, unsigned takes, const Action& action) {
  CLI::App* verb = add_subcommand(name, "", takes, action)->group("");
  add_node_options(verb, takes);
  return verb;
}

void CommandLine::add_output(CLI::App* verb, const std::vector<std::string>& more) {
  std::vector<std::string> forms{"text", "json"};
  forms.insert(forms.end(), more.begin(), more.end());
  const std::string& last = forms.back();
  choice(verb, "-o,--output", session.output, "FORMAT", forms,
         fmt::format("{} or {}{}", fmt::join(forms.begin(), forms.end() - 1, ", "), last,
                     last == "jsonl" ? " (one row per line)" : "")
             .c_str());
  verb->add_flag_callback(
      "--json", [this] { session.output = "json"; }, "the same as -o json");
  choice(verb, "--units", session.units, "UNITS", {"iec", "si", "bytes"}, "iec (GiB), si (GB) or bytes");
  choice(verb, "--color", session.colour, "WHEN", {"auto", "always", "never"}, "auto, always or never");
}

void CommandLine::add_node_options(CLI::App* verb, unsigned takes) {
  if ((takes & kSim) != 0)
    option(verb, "--sim", session.simulated_node, "NODE",
           verb->get_name() == "serve" ? "simulate a node: GPUs such as T4 or T4:16GiB*2,A100-40, or a TOML file"
                                       : "use a simulated node: GPUs such as T4 or T4:16GiB*2,A100-40, a TOML file, or "
                                         "demo for the node of ration demo")
        ->expected(0, 1);
  if ((takes & kSocket) != 0)
    option(verb, "--socket", session.socket, "PATH",
           "socket of the daemon; default: RATION_SOCKET, else the daemon's usual sockets");
}

// Sets the node that the verb is about: from the options or, where they do not name it, from the environment.
void CommandLine::choose_node(const CLI::App& verb, unsigned takes) {
  if ((takes & kSim) != 0) {
    if (session.simulated_node.empty()) session.simulated_node = environment("RATION_SIM");
    session.simulated_node = with_real_path(session.simulated_node);
    session.simulated = verb.count("--sim") > 0 || !session.simulated_node.empty();
    if (session.simulated) session.context.simulated = session.simulated_node.empty() ? "T4" : session.simulated_node;
  }
  if ((takes & kSocket) == 0) return;
  if (session.socket.empty()) session.socket = environment("RATION_SOCKET");
  session.context.socket = session.socket;
}

// Returns E1001 for --dry-run with a verb that changes nothing.
Result<void> CommandLine::check_dry_run(const CLI::App& verb) const {
  if (!session.dry_run) return {};
  const auto* action = verb.get_option_no_throw("action");
  const std::string what = action != nullptr && action->count() > 0 ? action->as<std::string>() : "";
  if (changes_state(verb_text(verb.get_name()), what)) return {};
  const std::string whole = verb.get_name() + (what.empty() ? "" : " " + what);
  return fail("E1001", fmt::format("{} changes nothing, so --dry-run has no meaning.", whole), "ration " + whole, 2);
}

Error CommandLine::usage_error(const CLI::ParseError& error) const {
  const std::string& name = words.verb;
  std::vector<std::string> names;
  for (const auto& text : verb_texts()) names.emplace_back(text.name);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    const bool option = !name.empty() && name.front() == '-';
    if (const char* meant = meant_by(verb_habits(), name); meant != nullptr)
      return {"E1001", fmt::format("there is no command '{}'.", name), with_name(meant, words.all), 2};
    Arguments meant = words;
    if (!option && !name.empty()) meant.all.front() = meant.verb = nearest(without_marks(name), names);
    mark_program(meant);
    const auto verdict = CommandLine(meant).judge();
    return {"E1001",
            fmt::format("there is no {} '{}'.{}", option ? "option" : "command", name,
                        suggestion(without_marks(name), names)),
            verdict && verdict->is_taken ? command_line_of(meant) : "ration help", 2};
  }
  const CLI::App& verb = *app.get_subcommand(name);
  std::string what = in_words(error, verb);
  if (const auto extra = verb.remaining(); !extra.empty())
    what =
        fmt::format("'{}' is not known here.{}", extra.front(), option_suggestion(extra.front(), long_options(verb)));
  if (takes_program(name) && !words.marked && !verb.remaining().empty())
    what = fmt::format("'{}' is not an option of ration: write -- before the program's own words.",
                       verb.remaining().front());
  if (error.get_name() == "RequiresError" && name == "set")
    return {"E1001", what, "ration ps   shows the names; then: ration set NAME --limit SIZE", 2};
  return {"E1001", what, fmt::format("ration {} --help", name), 2};
}

}  // namespace ration::cli
