#include "cli/text/reference.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "config/printer.hpp"

namespace ration::cli {
namespace {

struct OptionText {
  std::string flags, meaning;
};

bool is_hidden(const CLI::Option& option) { return option.get_group().empty(); }

// Returns the type of an option's value, without the list of values that a check appends, since the description names
// the values.
std::string type_of(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  return name.substr(0, name.find(':'));
}

std::vector<OptionText> options_of(const CLI::App& verb) {
  std::vector<OptionText> rows;
  for (const CLI::Option* option :
       verb.get_options([](const CLI::Option* entry) { return !entry->get_positional() && !is_hidden(*entry); })) {
    std::vector<std::string> names;
    for (const auto& name : option->get_snames()) names.push_back("-" + name);
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    std::string flags = fmt::format("{}", fmt::join(names, ", "));
    if (option->get_items_expected_max() > 0) {
      flags += option->get_items_expected_min() == 0 ? "[=" + type_of(*option) + "]" : " " + type_of(*option);
    }
    rows.push_back({flags, option->get_description()});
  }
  return rows;
}

std::string wrapped(const std::string& text, std::size_t indent, std::size_t columns = 80) {
  std::string out;
  std::size_t at = indent;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = std::min(text.find(' ', i), text.size());
    const std::size_t length = end - i;
    if (at > indent && at + length >= columns)
      out += "\n" + std::string(indent, ' '), at = indent;
    else if (at > indent)
      out += ' ', ++at;
    out.append(text, i, length);
    at += length;
    i = end + 1;
  }
  return out;
}

std::string roff(const std::string& text) {
  std::string out;
  bool start = true;
  for (const char letter : text) {
    if (start && (letter == '.' || letter == '\'')) out += "\\&";
    if (letter == '\\')
      out += "\\e";
    else if (letter == '-')
      out += "\\-";
    else if (letter == '\xc2' || letter == '\xe2' || letter == '\x80')
      continue;  // leading bytes of `·` and `…`, the only letters in these texts that are not ASCII
    else if (letter == '\xb7')
      out += "\\[pc]";  // the point of GiB·h
    else if (letter == '\xa6')
      out += "\\[u2026]";  // …
    else
      out += letter;
    start = letter == '\n';
  }
  return out;
}

std::string page_head(const std::string& name, int section, const std::string& summary) {
  return fmt::format(".TH \"{}\" {} \"\" \"ration\" \"ration manual\"\n.SH NAME\n{} \\- {}\n", name, section,
                     roff(name), roff(summary));
}

}  // namespace

const CLI::App* find_verb(const CLI::App& app, const std::string& name) {
  const auto found =
      app.get_subcommands([&](const CLI::App* verb) { return !verb->get_group().empty() && verb->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

std::vector<std::string> long_options(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string introduction() {
  return "ration enforces a GPU-memory limit on any program.\n\n"
         "  ration demo                                       see ration work, without a GPU\n"
         "  ration run --limit 4GiB -- python train.py        limit a program to 4 GiB\n"
         "  ration ps                                         show who uses how much memory\n";
}

std::string overview() {
  std::string verbs;
  for (const VerbText& verb : verb_texts()) verbs += (verbs.empty() ? "" : " ") + std::string(verb.name);
  return introduction() + "\nVerbs: " + verbs +
         "\nration help VERB explains a verb; ration help lists verbs and topics.\n";
}

std::string verb_list() {
  constexpr std::pair<Task, const char*> kTasks[] = {
      {Task::kRun, "run programs"},  {Task::kLook, "see who holds what, and why"},
      {Task::kShare, "share a GPU"}, {Task::kPlan, "plan"},
      {Task::kAccount, "account"},   {Task::kMachine, "set up and check the machine"},
      {Task::kHelp, "learn more"}};
  std::string text = "Verbs:\n";
  for (const auto& [task, title] : kTasks) {
    text += fmt::format(" to {}\n", title);
    for (const VerbText& verb : verb_texts())
      if (verb.task == task)
        text += fmt::format("  {:<12} {}{}\n", verb.name, verb.summary, (verb.node & kDaemon) != 0 ? " (daemon)" : "");
  }
  return text + "(daemon): needs the daemon, which ration serve or ration service starts\n";
}

std::string verb_help(const CLI::App& verb, bool everything) {
  const VerbText& text = verb_text(verb.get_name());
  std::string out;
  if (everything) {
    for (const Example& example : text.examples)
      out += fmt::format("  {}\n{}", example.command,
                         *example.meaning == '\0' ? "" : fmt::format("      {}\n", example.meaning));
    out += fmt::format("\n{}\n\n", wrapped(text.details, 0));
  }
  out += fmt::format("usage: ration {} {}\n", text.name, text.usage);
  const auto rows = options_of(verb);
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.flags.size());
  width = std::min<std::size_t>(width, 28);
  for (const auto& row : rows) {
    const bool wide = row.flags.size() > width;
    out += fmt::format("  {:<{}}{}{}\n", row.flags, width, wide ? "\n" + std::string(width + 4, ' ') : "  ",
                       wrapped(row.meaning, width + 4));
  }
  return out;
}

std::string verb_page(const CLI::App& verb) {
  const VerbText& text = verb_text(verb.get_name());
  std::string out = page_head(fmt::format("ration-{}", text.name), 1, text.summary);
  out += fmt::format(".SH SYNOPSIS\n.B ration {}\n{}\n.SH DESCRIPTION\n{}\n", text.name, roff(text.usage),
                     roff(text.details));
  out += ".SH OPTIONS\n";
  for (const auto& row : options_of(verb)) out += fmt::format(".TP\n.B {}\n{}\n", roff(row.flags), roff(row.meaning));
  out += ".SH EXAMPLES\n";
  for (const Example& example : text.examples)
    out += fmt::format(".TP\n.B {}\n{}\n", roff(example.command), roff(example.meaning));
  return out + ".SH SEE ALSO\n.BR ration (1),\n.BR ration-exit-codes (7),\n.BR ration-units (7)\n";
}

std::string topic_page(const Topic& topic) {
  return page_head(fmt::format("ration-{}", topic.name), 7, topic.summary) + ".SH DESCRIPTION\n.nf\n" +
         roff(topic.text) + ".fi\n";
}

std::string configuration_page() {
  std::string out = page_head("ration.toml", 5, "configuration of ration");
  // Prints examples so that they can be copied: without hyphens and stretched blanks.
  out += ".nh\n.ad l\n.SH DESCRIPTION\n.nf\n" + roff(config::layers_text()) + ".fi\n";
  for (const auto& section : config::reference()) {
    out += fmt::format(".SH {}\n{}\n", roff(section.header), roff(section.meaning));
    for (const auto& key : section.keys) {
      out += fmt::format(".TP\n.B {}\n{}\n.br\n{}{}.\n", roff(key.name), roff(key.meaning),
                         roff(fmt::format("Value: {}. For instance {}", key.form, key.example)),
                         key.standard.empty() ? "" : roff("; default " + key.standard));
    }
  }
  return out + ".SH ALERTS\n.nf\n" + roff(config::rules_text()) +
         ".fi\n.SH SEE ALSO\n.BR ration\\-config (1),\n.BR ration\\-units (7)\n";
}

std::string overview_page() {
  std::string out = page_head("ration", 1, "GPU-memory limits that hold, for any program");
  out += ".SH SYNOPSIS\n.B ration\nVERB [OPTIONS]\n.SH VERBS\n";
  for (const VerbText& verb : verb_texts())
    out += fmt::format(".TP\n.BR ration\\-{} (1)\n{}\n", verb.name, roff(verb.summary));
  return out + ".SH SEE ALSO\n.BR ration-exit-codes (7),\n.BR ration-env (7),\n.BR ration-enforcement (7)\n";
}

}  // namespace ration::cli
