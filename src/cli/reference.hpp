// What is said about the verbs beyond their options: one table, from which --help, the manual pages, the completion and
// `ration help` are all made, so that they cannot differ.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ration::cli {

struct Example {
  const char* command;
  const char* meaning;
};
struct VerbText {
  const char* name;
  const char* summary;
  const char* usage;  ///< after `ration NAME`
  const char* details;
  std::vector<Example> examples;
};
[[nodiscard]] const std::vector<VerbText>& verb_texts();
[[nodiscard]] const VerbText& verb_text(const std::string& name);

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

/// What `ration` alone prints.
[[nodiscard]] std::string overview();
/// `-h`: usage and options; `--help`: examples first, then all.
[[nodiscard]] std::string verb_help(const CLI::App& verb, bool everything);
/// The page of a verb in the manual's language (man(7)).
[[nodiscard]] std::string verb_page(const CLI::App& verb);
[[nodiscard]] std::string topic_page(const Topic& topic);
/// ration.toml(5), from the table of keys.
[[nodiscard]] std::string configuration_page();
[[nodiscard]] std::string overview_page(const CLI::App& app);

}  // namespace ration::cli
