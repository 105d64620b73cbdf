#include "config/printer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "config/keys.hpp"

namespace ration::config {
namespace {

std::string header_of(const Section& section) {
  return section.several() ? fmt::format("[[{}]]", section.name) : fmt::format("[{}]", section.name);
}

/// Formats a key's default as in a file.
std::string standard_text(const Key& key) {
  const std::string text = key.standard;
  return text.empty() || key.field.shape->kind != TomlValue::Kind::kText ? text : quoted(text);
}

std::string form_of(const Key& key) {
  return key.choices.empty() ? key.field.shape->name : fmt::format("{}", fmt::join(key.choices, " | "));
}

std::string example_name(const Key& key) {
  std::string name = key.name;
  if (key.any_names()) name.replace(name.size() - 1, 1, name == "set.*" ? "nlp" : "team");
  return name;
}

using RowKey = std::tuple<std::string, std::string, std::string>;
std::map<RowKey, const Row*> by_key(const Configuration& configuration) {
  std::map<RowKey, const Row*> all;
  for (const Row& row : configuration.rows) all[{row.section, row.item, row.key}] = &row;
  return all;
}

std::string subject_of(const Row& row) { return row.item.empty() ? row.section : row.section + " " + row.item; }

std::string short_value(const Row& row) { return row.text.empty() ? row.value : row.text; }

/// Returns the section and item of every row, each once and in order.
std::vector<std::string> subjects(const Configuration& configuration, const std::string& section = {}) {
  std::vector<std::string> all;
  for (const Row& row : configuration.rows) {
    if (!section.empty() && row.section != section) continue;
    const std::string subject = subject_of(row);
    if (std::find(all.begin(), all.end(), subject) == all.end()) all.push_back(subject);
  }
  return all;
}

bool contains(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

/// Adds a line for each section whose items have a new order, because the first tenant, policy or device that fits
/// applies.
void add_order(const Configuration& before, const Configuration& after, std::vector<std::string>& lines) {
  for (const Section& section : sections()) {
    if (section.identity == nullptr) continue;
    auto old_order = subjects(before, section.name), new_order = subjects(after, section.name);
    const auto kept = [](const std::vector<std::string>& other) {
      return [&other](const std::string& one) { return !contains(other, one); };
    };
    const auto all_new = new_order, all_old = old_order;
    std::erase_if(old_order, kept(all_new));
    std::erase_if(new_order, kept(all_old));
    if (old_order != new_order)
      lines.push_back(fmt::format("order: {} (was: {})", fmt::join(new_order, ", "), fmt::join(old_order, ", ")));
  }
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\')
      out += std::string("\\") + letter;
    else if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
    else
      out += letter;
  }
  return out + "\"";
}

std::string as_toml(const TomlValue& value) {
  if (value.kind == TomlValue::Kind::kText) return quoted(value.text);
  if (value.kind != TomlValue::Kind::kList) return value.text;
  std::vector<std::string> items;
  for (const TomlValue& item : value.items) items.push_back(as_toml(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string written_key(const std::string& section, const std::string& key, const Table& table) {
  const Section* known_section = find_section(table, section);
  const Key* known = known_section == nullptr ? nullptr : find_key(*known_section, key);
  if (known == nullptr || !known->any_names()) return key;
  const std::size_t prefix = std::string_view(known->name).size() - 1;
  const std::string rest = key.substr(prefix);
  const bool bare = std::all_of(rest.begin(), rest.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '_' || letter == '-';
  });
  return key.substr(0, prefix) + (bare ? rest : quoted(rest));
}

std::string initial_configuration(const Table& table) {
  std::string text =
      "# ration.toml - see: man ration.toml, ration help config, ration config validate\n"
      "# Every key is here with an example or its default. Remove the # from the keys that you set.\n"
      "schema = 1\n";
  for (const Section& section : table) {
    text += fmt::format("\n# {}\n{}{}\n", section.meaning, section.several() ? "# " : "", header_of(section));
    for (const Key& key : section.keys) {
      const std::string standard = standard_text(key);
      // Shows the default, or an example if the section is written several times or the key has no default.
      const std::string value = section.several() || standard.empty() ? key.example : standard;
      std::string note = !key.choices.empty() ? fmt::format("  [{}]", form_of(key)) : "";
      if (section.several() && !standard.empty()) note += fmt::format("  [default: {}]", key.standard);
      text += fmt::format("# {:<44} # {}{}\n", fmt::format("{} = {}", example_name(key), value), key.meaning, note);
    }
  }
  return text;
}

std::string printed(const Configuration& configuration, const Table& table) {
  std::string text = "schema = 1\n", last;
  for (const Row& row : configuration.rows) {
    const std::string subject = subject_of(row);
    if (subject != last) text += fmt::format("\n{}\n", header_of(*find_section(table, row.section)));
    last = subject;
    text += fmt::format("{:<44} # {}\n", fmt::format("{} = {}", written_key(row.section, row.key, table), row.value),
                        row.origin.text());
  }
  return text;
}

std::vector<std::string> difference(const Configuration& before, const Configuration& after) {
  std::vector<std::string> lines;
  const auto old_rows = by_key(before), new_rows = by_key(after);
  const auto old_subjects = subjects(before), new_subjects = subjects(after);
  std::set<std::string> seen;
  for (const Row& row : after.rows) {
    const std::string subject = subject_of(row);
    if (!contains(old_subjects, subject)) {
      if (!row.origin.is_default() && seen.insert(subject).second)
        lines.push_back(fmt::format("{}: new ({})", subject, row.origin.text()));
      continue;
    }
    const auto old = old_rows.find({row.section, row.item, row.key});
    if (old == old_rows.end())
      lines.push_back(fmt::format("{}: {} none → {} ({})", subject, row.key, short_value(row), row.origin.text()));
    else if (old->second->value != row.value)
      lines.push_back(fmt::format("{}: {} {} → {} ({})", subject, row.key, short_value(*old->second), short_value(row),
                                  row.origin.text()));
  }
  for (const Row& row : before.rows) {
    const std::string subject = subject_of(row);
    if (!contains(new_subjects, subject)) {
      if (seen.insert(subject).second) lines.push_back(fmt::format("{}: removed", subject));
    } else if (new_rows.find({row.section, row.item, row.key}) == new_rows.end()) {
      lines.push_back(fmt::format("{}: {} {} → none", subject, row.key, short_value(row)));
    }
  }
  add_order(before, after, lines);
  return lines;
}

std::vector<SectionText> reference(const Table& table) {
  std::vector<SectionText> all;
  for (const Section& section : table) {
    SectionText text{header_of(section), section.meaning, {}};
    for (const Key& key : section.keys) {
      text.keys.push_back({key.name, form_of(key), standard_text(key), key.meaning,
                           fmt::format("{} = {}", example_name(key), key.example)});
    }
    all.push_back(std::move(text));
  }
  return all;
}

std::string layers_text() {
  return "ration reads /etc/ration/ration.toml, then $XDG_CONFIG_HOME/ration/ration.toml (or the file in\n"
         "RATION_CONFIG). For each key the later file wins, and an option of the command line wins over both.\n"
         "A file can begin with schema = 1, the version of its format. Tenants with the same name, and devices\n"
         "with the same match, are merged from both files. Tenants, devices, policies and schedules that stand\n"
         "only in the later file come first in the order. If several match, the first applies.\n"
         "An unknown key or an impossible value is an error with its line and column, and nothing of the file is\n"
         "applied.\n";
}

std::string rules_text() {
  std::string text =
      "A rule of alerts is SUBJECT [> | >= | < | <= VALUE] [for DURATION], such as \"tenant.used > 90% for 5m\".\n"
      "Subjects:\n";
  for (const Measure& measure : measures()) text += fmt::format("  {:<22} {}\n", measure.name, measure.meaning);
  return text;
}

}  // namespace ration::config
