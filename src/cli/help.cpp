// `ration help`, `ration completion` and the manual pages: all from the same tables.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/printable.hpp"
#include "cli/node_client.hpp"
#include "cli/reference.hpp"
#include "cli/scenario.hpp"
#include "cli/verbs.hpp"
#include "policy/slices.hpp"
#include "policy/text.hpp"

namespace ration::cli {
namespace {

const CLI::App* find_verb(const CLI::App& app, const std::string& name) {
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App* entry) { return !entry->get_group().empty(); })) {
    if (verb->get_name() == name) return verb;
  }
  return nullptr;
}

std::filesystem::path schema_folder() {
  std::error_code error;
  return std::filesystem::canonical("/proc/self/exe", error).parent_path().parent_path() / "share" / "ration" /
         "schema";
}

/// Every schema that is installed, with what it describes.
std::string schema_list() {
  std::error_code error;
  std::set<std::filesystem::path> files;
  for (std::filesystem::directory_iterator each(schema_folder(), error), end; !error && each != end;
       each.increment(error))
    if (each->path().extension() == ".json") files.insert(each->path());
  std::string text;
  for (const auto& path : files) {
    std::ifstream file(path);
    const auto schema = nlohmann::json::parse(file, nullptr, false);
    if (schema.is_object())
      text += fmt::format("  ration help schema {:<17} {}\n", path.stem().string(), schema.value("title", ""));
  }
  return text;
}

Result<int> print_schema(const std::string& name) {
  if (name.find('/') == std::string::npos) {
    if (std::ifstream file(schema_folder() / (name + ".json")); file) {
      fmt::print("{}", std::string((std::istreambuf_iterator<char>(file)), {}));
      return 0;
    }
  }
  return fail("E1422", fmt::format("there is no schema '{}'.", name), "ration help schema   lists them", 3);
}

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const VerbText& verb : verb_texts()) names.emplace_back(verb.name);
  return names;
}

std::vector<std::string> long_options(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// What the value of an option is chosen from, by the word that its help shows: `ration candidates KIND` lists them.
std::string kind_of_value(const CLI::Option& option) {
  constexpr std::pair<std::string_view, const char*> kKinds[] = {
      {"GPU", "gpus"}, {"SLICE", "slices"}, {"WORKLOAD", "workloads"}, {"TENANT", "tenants"}};
  if (option.get_name() == "--scenario") return "scenarios";
  for (const auto& [type, kind] : kKinds)
    if (option.get_type_name() == type) return kind;
  return {};
}

/// The same of the verb's own words; empty: nothing that could be listed.
std::string kind_of_words(const std::string& verb) {
  for (const char* about : {"ps", "explain", "why", "set", "trim", "suspend", "resume", "stop", "recommend"})
    if (verb == about) return "workloads";
  return verb == "help" ? "topics" : verb == "split" ? "gpus" : "";
}

/// What an action is chosen from, or a shell: the words of the usage line.
std::string actions_of(const std::string& verb) {
  if (verb == "service") return "install uninstall start stop restart status print";
  if (verb == "config") return "init validate print path reload";
  return verb == "completion" ? "bash zsh fish" : verb == "sim" ? "env" : verb == "report" ? "close" : "";
}

/// The names of an option, as they are typed.
std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& name : option.get_snames()) names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

/// Names may hold any printable letter: candidates are lines, never words that a shell would expand.
std::string bash(const CLI::App& app) {
  std::string options, values, words;
  for (const std::string& name : verb_names()) {
    const CLI::App& verb = *find_verb(app, name);
    options += fmt::format("    {}) options='{}' ;;\n", name, fmt::join(long_options(verb), " "));
    for (const CLI::Option* option : verb.get_options())
      if (const std::string kind = kind_of_value(*option); !kind.empty() && !option->get_positional())
        for (const std::string& word : names_of(*option))
          values += fmt::format("    {}:{}) kind={} ;;\n", name, word, kind);
    if (const std::string kind = kind_of_words(name); !kind.empty())
      words += fmt::format("    {}) kind={} ;;\n", name, kind);
    if (const std::string actions = actions_of(name); !actions.empty())
      words += fmt::format("    {}) [ \"$COMP_CWORD\" -eq 2 ] && actions='{}' ;;\n", name, actions);
  }
  return fmt::format(
      "_ration() {{\n"
      "  local verb=${{COMP_WORDS[1]}} options= kind= actions= node=() line i\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W '{}' -- \"$2\"))\n    return\n  fi\n"
      "  for ((i = 2; i < COMP_CWORD; ++i)); do\n"
      "    case ${{COMP_WORDS[i]}} in\n"
      "      --) if [ \"$verb\" = run ] || [ \"$verb\" = sim ]; then\n"
      "            COMPREPLY=($(compgen -f -- \"$2\"; ((i + 1 == COMP_CWORD)) && compgen -A command -- \"$2\"))\n"
      "            return\n          fi ;;\n"
      "      --sim) [ \"${{COMP_WORDS[i + 1]}}\" = = ] && node+=(\"--sim=${{COMP_WORDS[i + 2]}}\") ;;\n"
      "      --sim=*|--socket=*) node+=(\"${{COMP_WORDS[i]}}\") ;;\n"
      "      --socket) node+=(\"--socket=${{COMP_WORDS[i + 1]}}\") ;;\n"
      "    esac\n  done\n"
      "  case $verb in\n{}  esac\n"
      "  case $2 in\n    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$2\")); return ;;\n  esac\n"
      "  case $verb:$3 in\n{}    *:-*) COMPREPLY=($(compgen -f -- \"$2\")); [ -n \"$2\" ] && return ;;\n  esac\n"
      "  [ -n \"$kind\" ] || case $verb in\n{}    config|plan|doctor) ;;\n  esac\n"
      "  if [ -n \"$actions\" ]; then\n    COMPREPLY=($(compgen -W \"$actions\" -- \"$2\"))\n"
      "  elif [ -n \"$kind\" ]; then\n    COMPREPLY=()\n"
      "    while IFS= read -r line; do\n"
      "      case $line in \"$2\"*) COMPREPLY+=(\"$(printf %q \"$line\")\") ;; esac\n"
      "    done < <(\"${{COMP_WORDS[0]}}\" candidates \"$kind\" \"${{node[@]}}\" 2>/dev/null)\n"
      "  else\n    COMPREPLY=($(compgen -f -- \"$2\"))\n  fi\n}}\n"
      "complete -F _ration ration\n",
      fmt::join(verb_names(), " "), options, values, words);
}

std::string zsh(const CLI::App& app) {
  std::string verbs, cases, values, own;
  for (const VerbText& verb : verb_texts()) {
    for (const CLI::Option* option : find_verb(app, verb.name)->get_options())
      if (const std::string kind = kind_of_value(*option); !kind.empty() && !option->get_positional())
        for (const std::string& word : names_of(*option))
          values += fmt::format("    {}:{}) kind={} ;;\n", verb.name, word, kind);
    if (const std::string kind = kind_of_words(verb.name); !kind.empty())
      own += fmt::format("    {}) kind={} ;;\n", verb.name, kind);
    verbs += fmt::format(" '{}:{}'", verb.name, verb.summary);
    cases +=
        fmt::format("    {}) compadd -- {} ;;\n", verb.name, fmt::join(long_options(*find_verb(app, verb.name)), " "));
  }
  return fmt::format(
      "#compdef ration\nif (( CURRENT == 2 )); then\n  local -a verbs=({})\n  _describe verb verbs\n"
      "elif [[ $words[CURRENT] == -* ]]; then\n  case $words[2] in\n{}  esac\nelse\n"
      "  local kind=\n  case $words[2]:$words[CURRENT-1] in\n{}  esac\n"
      "  [[ -n $kind ]] || case $words[2] in\n{}  esac\n"
      "  if [[ -n $kind ]]; then\n    compadd -- ${{(f)\"$(ration candidates $kind 2>/dev/null)\"}}\n"
      "  else\n    _default\n  fi\nfi\n",
      verbs, cases, values, own);
}

std::string fish(const CLI::App& app) {
  std::string text;
  for (const VerbText& verb : verb_texts()) {
    text += fmt::format("complete -c ration -n __fish_use_subcommand -f -a {} -d '{}'\n", verb.name, verb.summary);
    for (const CLI::Option* option : find_verb(app, verb.name)->get_options()) {
      const std::string kind = kind_of_value(*option);
      for (const std::string& name : option->get_lnames())
        text += fmt::format("complete -c ration -n '__fish_seen_subcommand_from {}' -l {}{}\n", verb.name, name,
                            kind.empty() ? "" : fmt::format(" -x -a '(ration candidates {} 2>/dev/null)'", kind));
    }
    if (const std::string kind = kind_of_words(verb.name); !kind.empty())
      text += fmt::format(
          "complete -c ration -n '__fish_seen_subcommand_from {}' -f -a '(ration candidates {} 2>/dev/null)'\n",
          verb.name, kind);
  }
  return text;
}

bool write(const std::filesystem::path& path, const std::string& text) {
  return static_cast<bool>(std::ofstream(path) << text);
}

}  // namespace

Result<int> help(const CLI::App& app, const std::vector<std::string>& topic) {
  if (topic.empty()) {
    fmt::print("{}\n{}\nTopics:\n", introduction(), verb_list());
    for (const Topic& entry : topics()) fmt::print("  ration help {:<12} {}\n", entry.name, entry.summary);
    return 0;
  }
  if (topic.size() == 2 && topic[0] == "schema") return print_schema(topic[1]);
  if (topic.size() > 1)
    return fail("E1422", fmt::format("'{}' is one word too many: help is on one thing.", topic[1]),
                "ration help " + topic.front(), 2);
  const std::string& name = topic.front();
  const bool is_topic =
      name == "env" || name == "config";  // topics that share a verb's name: ration VERB --help is the verb
  if (find_verb(app, name) != nullptr && !is_topic) {
    fmt::print("{}", verb_help(*find_verb(app, name), true));
    return 0;
  }
  for (const Topic& entry : topics()) {
    if (name != entry.name) continue;
    fmt::print("{}", entry.text);
    if (name == "schema") fmt::print("\n{}", schema_list());
    if (is_topic) fmt::print("\nThe verb of that name: ration {} --help\n", name);
    return 0;
  }
  for (const ErrorText& error : error_texts()) {
    if (name != error.id) continue;
    fmt::print("{}  {}\n\nwhat to do: {}\n", error.id, error.meaning, error.fix);
    return 0;
  }
  std::vector<std::string> known = verb_names();
  for (const Topic& entry : topics()) known.emplace_back(entry.name);
  return fail("E1422", fmt::format("there is no help on '{}'.{}", name, policy::suggestion(name, known)),
              "ration help   lists the topics", 3);
}

Result<int> completion(const CLI::App& app, const std::string& shell) {
  if (shell == "bash")
    fmt::print("{}", bash(app));
  else if (shell == "zsh")
    fmt::print("{}", zsh(app));
  else if (shell == "fish")
    fmt::print("{}", fish(app));
  else
    return fail("E1423", fmt::format("there is no completion for '{}'.", shell), "ration completion bash, zsh or fish",
                2);
  return 0;
}

Result<int> candidates(const Session& session, const std::string& kind) {
  std::set<std::string> names;
  if (kind == "topics") {
    for (const std::string& verb : verb_names()) names.insert(verb);
    for (const Topic& topic : topics()) names.insert(topic.name);
  } else if (kind == "scenarios") {
    for (const std::string& name : scenario_names()) names.insert(name);
  } else if (kind == "slices") {
    const auto store = session.store();
    if (!store) return tl::unexpected(store.error());
    if (const auto slices = policy::read_slices(*store); slices)
      for (const policy::Slice& slice : *slices) names.insert(slice.name);
  } else {
    const auto snapshot = node_snapshot(session, 1);
    if (!snapshot) return tl::unexpected(snapshot.error());
    if (kind == "gpus")
      for (const auto& device : snapshot->at("devices")) names.insert(std::to_string(device.at("gpu").get<int>()));
    const char* field = kind == "tenants" ? "tenant" : "workload";
    for (const auto& row : snapshot->at("workloads"))
      if (kind != "gpus" && row.value("governed", false)) names.insert(printable(row.at(field).get<std::string>()));
  }
  for (const std::string& name : names) fmt::print("{}\n", name);
  return 0;
}

Result<int> manual(const CLI::App& app, const std::string& folder) {
  const std::filesystem::path base = folder;
  std::error_code error;
  std::filesystem::create_directories(base / "man1", error);
  std::filesystem::create_directories(base / "man5", error);
  std::filesystem::create_directories(base / "man7", error);
  bool good = write(base / "man1" / "ration.1", overview_page(app));
  good = write(base / "man5" / "ration.toml.5", configuration_page()) && good;
  for (const std::string& name : verb_names())
    good = write(base / "man1" / ("ration-" + name + ".1"), verb_page(*find_verb(app, name))) && good;
  for (const Topic& topic : topics())
    good = write(base / "man7" / fmt::format("ration-{}.7", topic.name), topic_page(topic)) && good;
  if (!good) return fail("E1405", fmt::format("{} cannot be written.", folder), "ration manual <a folder of yours>");
  return 0;
}

}  // namespace ration::cli
