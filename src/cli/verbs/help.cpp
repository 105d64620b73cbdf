// `ration help` and the manual pages, made from the same tables.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/strings.hpp"
#include "base/whole_file.hpp"
#include "cli/text/reference.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace {

std::filesystem::path schema_folder() { return std::filesystem::path(share_folder()) / "ration" / "schema"; }

/// Returns the list of installed schemas with their titles.
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
    if (const auto schema = read_whole(schema_folder() / (name + ".json"))) {
      fmt::print("{}", *schema);
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

bool same_without_case(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](unsigned char left, unsigned char right) { return std::toupper(left) == std::toupper(right); });
}

bool write(const std::filesystem::path& path, const std::string& text) {
  return static_cast<bool>(std::ofstream(path) << text);
}

bool is_topic_named(const std::string& name) {
  return std::any_of(topics().begin(), topics().end(),
                     [&](const Topic& entry) { return same_without_case(name, entry.name); });
}

}  // namespace

Result<int> help(const CLI::App& app, const std::vector<std::string>& topic) {
  if (topic.empty()) {
    fmt::print("{}\n{}\nTopics:\n", introduction(), verb_list());
    for (const Topic& entry : topics()) fmt::print("  ration help {:<12} {}\n", entry.name, entry.summary);
    return 0;
  }
  if (topic.size() == 2 && topic[0] == "schema") return print_schema(topic[1]);
  if (const std::string joined = fmt::to_string(fmt::join(topic, "-")); topic.size() > 1 && is_topic_named(joined))
    return help(app, {joined});
  if (topic.size() > 1)
    return fail("E1422", fmt::format("help explains one topic at a time; '{}' is a second topic.", topic[1]),
                "ration help " + topic.front(), 2);
  const std::string typed = lower(topic.front());
  const char* meant = meant_by(topic_habits(), typed);
  const std::string name = meant != nullptr ? meant : typed;
  const bool is_topic =
      name == "env" || name == "config";  // topics with the name of a verb; ration VERB --help explains the verb
  if (find_verb(app, name) != nullptr && !is_topic) {
    fmt::print("{}", verb_help(*find_verb(app, name), true));
    return 0;
  }
  for (const Topic& entry : topics()) {
    if (name != entry.name) continue;
    fmt::print("{}", entry.text);
    if (name == "schema") fmt::print("\n{}", schema_list());
    if (is_topic) fmt::print("\nThere is also a verb with this name: ration {} --help\n", name);
    return 0;
  }
  for (const ErrorText& error : error_texts()) {
    if (!same_without_case(name, error.id)) continue;
    fmt::print("{}  {}\n\nwhat to do: {}\n", error.id, error.meaning, error.fix);
    if (*error.page != '\0') fmt::print("more: ration docs --text {}\n", error.page);
    return 0;
  }
  std::vector<std::string> known = verb_names();
  for (const Topic& entry : topics()) known.emplace_back(entry.name);
  return fail("E1422", fmt::format("there is no help on '{}'.{}", topic.front(), suggestion(name, known)),
              "ration help   lists the topics", 3);
}

Result<int> manual(const CLI::App& app, const std::string& folder) {
  const std::filesystem::path base = folder;
  std::error_code error;
  std::filesystem::create_directories(base / "man1", error);
  std::filesystem::create_directories(base / "man5", error);
  std::filesystem::create_directories(base / "man7", error);
  bool good = write(base / "man1" / "ration.1", overview_page());
  good = write(base / "man5" / "ration.toml.5", configuration_page()) && good;
  for (const std::string& name : verb_names())
    good = write(base / "man1" / ("ration-" + name + ".1"), verb_page(*find_verb(app, name))) && good;
  for (const Topic& topic : topics())
    good = write(base / "man7" / fmt::format("ration-{}.7", topic.name), topic_page(topic)) && good;
  if (!good) return fail("E1405", fmt::format("{} cannot be written.", folder), "ration manual <a folder of yours>");
  return 0;
}

}  // namespace ration::cli
