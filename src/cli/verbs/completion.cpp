// `ration completion SHELL` prints a script that asks `ration candidates -- WORD...` at each TAB for the values of the
// last word. Every shell therefore offers the same, and a script stays correct when options change.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "admission/slices.hpp"
#include "base/printable.hpp"
#include "cli/session/node_client.hpp"
#include "cli/session/scenario.hpp"
#include "cli/text/reference.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace {

// Exit codes of `candidates` that tell a script to complete file names, or a program and its arguments.
constexpr int kAnswerFileNames = 10, kAnswerProgram = 11;

struct Script {
  const char* shell;
  const char* text;
};

// Names may contain any printable letter, so candidates are lines and never words that a shell would expand.
constexpr Script kScripts[] = {{"bash", R"(_ration() {
  local words=() word meaning joined= found
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do  # which readline also splits at = and :
    case $joined$word in
      [=:]) words[-1]+=$word joined=. ;;
      .*) words[-1]+=$word joined= ;;
      *) words+=("$word") ;;
    esac
  done
  found=$("${COMP_WORDS[0]}" candidates -- "${words[@]}" 2>/dev/null)
  case $? in
    0) COMPREPLY=()
       while IFS=$'\t' read -r word meaning; do
         printf -v word %q "${word#"${words[-1]%"$2"}"}"
         [[ $word == "$2"* ]] && COMPREPLY+=("$word")
       done < <([ -z "$found" ] || printf '%s\n' "$found") ;;
    10) compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
    11) compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <([ "${words[-2]}" != -- ] || compgen -c -- "$2"; compgen -f -- "$2") ;;
  esac
}
complete -F _ration ration
)"},
                               {"zsh", R"(#compdef ration
_ration() {
  local found line
  local -a names shown
  found=$("${(Q)words[1]}" candidates -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
  case $? in
    0) for line in "${(@f)found}"; do
         names+=("${line%%$'\t'*}") shown+=("${line/$'\t'/  -- }")
       done
       compadd -l -d shown -a names ;;
    10) _files ;;
    11) local at=${words[(i)--]}
        words=("${(@)words[at+1,-1]}")
        (( CURRENT -= at ))
        _normal ;;
  esac
}
if [[ $funcstack[1] == _ration ]]; then _ration "$@"; else compdef _ration ration; fi
)"},
                               {"fish", R"(function __ration_candidates
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l program $words[1]
  set -e words[1]
  set -l found ($program candidates -- $words "$current" 2>/dev/null)
  switch $status
    case 0
      printf '%s\n' $found
    case 10
      __fish_complete_path "$current"
    case 11
      set -e words[1..(contains -i -- -- $words)]
      complete -C (string join ' ' -- (string escape -- $words) "$current")
  end
end
complete -c ration -f -a '(__ration_candidates)'
)"}};

/// Returns the possible values of an option; nothing if they cannot be listed. `kind` is the word that help shows for
/// the value, such as GPU.
Result<std::optional<std::set<std::string>>> names_of(const Session& session, const std::string& kind) {
  std::set<std::string> names;
  if (kind == "TOPIC") {
    for (const VerbText& verb : verb_texts()) names.insert(verb.name);
    for (const Topic& topic : topics()) names.insert(topic.name);
  } else if (kind == "SCENARIO") {
    for (const std::string& name : scenario_names()) names.insert(name);
  } else if (kind == "SHELL") {
    for (const Script& script : kScripts) names.insert(script.shell);
  } else if (kind == "SLICE") {
    RATION_TRY(const auto store, session.store());
    if (const auto slices = admission::read_slices(store); slices)
      for (const admission::Slice& slice : *slices) names.insert(slice.name);
  } else if (kind == "GPU" || kind == "WORKLOAD" || kind == "TENANT") {
    RATION_TRY(const auto snapshot, node_snapshot(session, {.processes = 1}));
    if (kind == "GPU")
      for (const auto& device : snapshot.at("devices")) names.insert(std::to_string(device.at("gpu").get<int>()));
    const char* field = kind == "TENANT" ? "tenant" : "workload";
    for (const auto& row : snapshot.at("workloads"))
      if (kind != "GPU" && row.at("governed") == true) names.insert(printable(row.at(field).get<std::string>()));
  } else {
    return std::nullopt;
  }
  return names;
}

/// Returns the choices of a check, which the parser appends to the type: `FORMAT:{text,json}`.
std::set<std::string> choices_of(const std::string& type) {
  std::set<std::string> choices;
  for (std::size_t at = type.find(":{"); at != std::string::npos && at + 1 < type.size() && type[at] != '}';) {
    const std::size_t begin = at + (type[at] == ':' ? 2 : 1), end = type.find_first_of(",}", begin);
    choices.insert(type.substr(begin, end - begin));
    at = end;
  }
  return choices;
}

/// Prints the possible values of an option, each after `before`.
Result<int> offer_values(const Session& session, const CLI::Option& option, const std::string& before) {
  const std::string type = option.get_type_name();
  std::set<std::string> names = choices_of(type);
  if (names.empty()) {
    RATION_TRY(auto found, names_of(session, type));
    if (!found) return kAnswerFileNames;
    names = std::move(*found);
  }
  for (const std::string& name : names) fmt::print("{}{}\n", before, name);
  return 0;
}

Result<int> offer_options(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) fmt::print("--{}\t{}\n", name, option->get_description());
  return 0;
}

/// Returns the option that takes the word after `word` as its value; null if none does.
const CLI::Option* waits_for_value(const CLI::App& verb, const std::string& word) {
  const CLI::Option* option = word.rfind('-', 0) == 0 ? verb.get_option_no_throw(word) : nullptr;
  return option != nullptr && option->get_items_expected_min() > 0 ? option : nullptr;
}

}  // namespace

Result<int> candidates(const Session& session, const CLI::App& app, const std::vector<std::string>& words) {
  if (words.size() < 2) {
    for (const VerbText& verb : verb_texts()) fmt::print("{}\t{}\n", verb.name, verb.summary);
    return 0;
  }
  const CLI::App* verb = find_verb(app, words.front());
  if (verb == nullptr) return 0;
  const bool starts_program =
      words.front() == "run" || words.front() == "record" || words.front() == "whatif" || words.front() == "sim";
  if (starts_program && std::find(words.begin(), words.end() - 1, "--") != words.end() - 1) return kAnswerProgram;
  const std::string& current = words.back();
  if (const std::size_t equals = current.find('='); current.rfind("--", 0) == 0 && equals != std::string::npos) {
    const CLI::Option* option = verb->get_option_no_throw(current.substr(0, equals));
    return option == nullptr ? Result<int>(0) : offer_values(session, *option, current.substr(0, equals + 1));
  }
  std::size_t place = 0;  // index among the positional arguments
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    if (const CLI::Option* option = waits_for_value(*verb, words[i])) {
      if (i + 2 == words.size()) return offer_values(session, *option, "");
      ++i;
    } else if (words[i].rfind('-', 0) != 0) {
      ++place;
    }
  }
  if (current.rfind('-', 0) == 0) return offer_options(*verb);
  const auto own = verb->get_options([](const CLI::Option* option) { return option->get_positional(); });
  if (starts_program && own.empty()) return kAnswerFileNames;
  return place < own.size() ? offer_values(session, *own[place], "") : offer_options(*verb);
}

Result<int> completion(const std::string& shell) {
  for (const Script& script : kScripts) {
    if (shell != script.shell) continue;
    fmt::print("{}", script.text);
    return 0;
  }
  return fail("E1423", fmt::format("there is no completion for '{}'.", shell), "ration completion bash, zsh or fish",
              2);
}

}  // namespace ration::cli
