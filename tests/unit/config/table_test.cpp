// The table of keys: what is promised of every row of it, and that a row is all that a key needs.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "config/printer.hpp"
#include "config/shapes.hpp"

using namespace ration;
using namespace ration::config;
using namespace std::chrono_literals;
using nlohmann::ordered_json;

namespace {

/// The key as it is written: a name in the place of any names.
std::string written(const Key& key) {
  std::string name = key.name;
  return key.any_names() ? name.replace(name.size() - 1, 1, "a") : name;
}

/// A file in which the key has its example, and beside it only what its section cannot do without.
std::string file_with(const Section& section, const Key& key) {
  const std::string name = written(key), title = section.name;
  std::string text = section.several() ? "[[" + title + "]]\n" : "[" + title + "]\n";
  const auto need = [&](const char* needed, const char* line) {
    if (name != needed) text += line;
  };
  if (title == "tenant") need("name", "name = \"a\"\n");
  if (title == "device") need("match", "match = \"*\"\n");
  if (title == "schedule") need("when", "when = \"1:00-2:00\"\n"), need("set.a", "set.a = \"1GiB\"\n");
  if (name == "idle.action" || name == "idle.suspend_after") text += "idle.after = \"1m\"\n";
  text += name + " = " + key.example + "\n";
  return title == "schedule" ? text + "[[tenant]]\nname = \"a\"\n" : text;
}

std::vector<std::string> problems(const Reading& reading) {
  std::vector<std::string> all;
  for (const FileProblem& problem : reading.problems) all.push_back(place_text(problem) + ": " + problem.what);
  return all;
}

const Row* find_row(const Configuration& all, const Section& section, const std::string& key) {
  for (const Row& row : all.rows)
    if (row.section == section.name && row.key == key) return &row;
  return nullptr;
}

std::string manual(const Table& table) {
  std::string text;
  for (const SectionText& section : reference(table))
    for (const KeyText& key : section.keys)
      text += section.header + key.name + " = " + key.standard + " # " + key.meaning + "\n";
  return text;
}

/// Every typed field by its key, and whether a file has set it: of sections written several times that of the first
/// item.
std::map<std::string, bool> fields(const Configuration& all) {
  const auto first = [](const auto& items) { return items.empty() ? std::decay_t<decltype(items[0])>() : items[0]; };
  const Daemon& daemon = all.daemon;
  const Defaults& defaults = all.defaults;
  const DeviceRule device = first(all.devices);
  const Tenant tenant = first(all.tenants);
  const Policy policy = first(all.policies);
  const Schedule schedule = first(all.schedules);
  const AlertSettings& alerts = all.alerts;
  const Report& report = all.report;
  std::map<std::string, bool> set{{"compat.hami", !all.compat_hami.origin.is_default()},
                                  {"tenant.match.label.a", tenant.match.labels.contains("a")},
                                  {"policy.match.label.a", policy.match.labels.contains("a")},
                                  {"schedule.set.a", schedule.set.contains("a")}};
#define FIELD(field) set[#field] = !field.origin.is_default()
  FIELD(daemon.socket), FIELD(daemon.listen), FIELD(daemon.token_file), FIELD(daemon.state), FIELD(daemon.sample);
  FIELD(daemon.sample_idle), FIELD(daemon.metrics_processes);
  set["http.anonymous"] = !all.http.anonymous.origin.is_default();
  FIELD(defaults.limit), FIELD(defaults.host_limit), FIELD(defaults.guarantee), FIELD(defaults.gpu),
      FIELD(defaults.on_deny);
  FIELD(defaults.account), FIELD(defaults.managed), FIELD(defaults.tenant), FIELD(defaults.summary);
  FIELD(defaults.growth), FIELD(defaults.framework_hints), FIELD(defaults.require_enforced);
  FIELD(defaults.ungoverned), FIELD(defaults.grace);
  FIELD(device.match), FIELD(device.keep_free), FIELD(device.slices);
  FIELD(tenant.name), FIELD(tenant.match.users), FIELD(tenant.match.groups), FIELD(tenant.match.cgroup);
  FIELD(tenant.match.service), FIELD(tenant.match.image), FIELD(tenant.match.any), FIELD(tenant.guarantee);
  FIELD(tenant.limit), FIELD(tenant.soft), FIELD(tenant.priority), FIELD(tenant.price);
  FIELD(policy.match.users), FIELD(policy.match.groups), FIELD(policy.match.cgroup), FIELD(policy.match.service);
  FIELD(policy.match.image), FIELD(policy.match.any), FIELD(policy.per), FIELD(policy.limit), FIELD(policy.host_limit);
  FIELD(policy.record);
  FIELD(policy.idle.after), FIELD(policy.idle.below), FIELD(policy.idle.action), FIELD(policy.idle.suspend_after);
  FIELD(schedule.when), FIELD(schedule.days);
  FIELD(alerts.rules), FIELD(alerts.webhook);
  FIELD(report.basis), FIELD(report.currency), FIELD(report.share_idle), FIELD(report.retention), FIELD(report.price);
  const Containers& containers = all.containers;
  FIELD(containers.cdi);
  const Recordings& recordings = all.recordings;
  FIELD(recordings.keep);
#undef FIELD
  return set;
}

ordered_json schema_of(const Key& key) {
  const ordered_json text{{"type", "string"}}, list{{"type", "array"}, {"items", text}};
  ordered_json schema = text;
  if (key.field.shape->kind == TomlValue::Kind::kList) schema = list;
  if (key.field.shape->kind == TomlValue::Kind::kFlag) schema = {{"type", "boolean"}};
  if (key.field.shape->kind == TomlValue::Kind::kWhole) schema = {{"type", "integer"}};
  if (key.field.shape == &shapes::kTexts) schema = {{"anyOf", {text, list}}};
  if (!key.choices.empty()) schema = {{"enum", key.choices}};
  schema["description"] = key.meaning;
  return schema;
}

ordered_json open_table() { return {{"type", "object"}, {"properties", ordered_json::object()}}; }

/// The JSON schema of a configuration file.
ordered_json schema_of(const Table& table) {
  ordered_json all = open_table();
  all["properties"]["schema"] = {{"const", 1}};
  for (const Section& section : table) {
    ordered_json made = open_table();
    made["description"] = section.meaning;
    for (const Key& key : section.keys) {
      std::string name = key.name;
      ordered_json* level = &made;
      for (std::size_t dot; (dot = name.find('.')) != std::string::npos; name.erase(0, dot + 1)) {
        ordered_json& below = (*level)["properties"][name.substr(0, dot)];
        if (below.is_null()) below = open_table();
        level = &below;
      }
      key.any_names() ? (*level)["additionalProperties"] = schema_of(key)
                      : (*level)["properties"][name] = schema_of(key);
    }
    if (section.identity != nullptr) made["required"] = {section.identity};
    all["properties"][section.name] = section.several() ? ordered_json{{"type", "array"}, {"items", made}} : made;
  }
  const auto close = [](const auto& self, ordered_json& part) -> void {
    if (part.contains("properties") && !part.contains("additionalProperties")) part["additionalProperties"] = false;
    for (ordered_json& below : part)
      if (below.is_object()) self(self, below);
  };
  close(close, all);
  ordered_json document{{"$schema", "http://json-schema.org/draft-07/schema#"},
                        {"$id", "ration.configuration/1"},
                        {"title", "the configuration file, as JSON"}};
  document.update(all);
  return document;
}

}  // namespace

TEST(KeyTable, TheShippedSchemaIsTheTables) {
  const std::string wanted = schema_of(sections()).dump(1) + "\n";
  if (std::getenv("UPDATE_SCHEMA") != nullptr) std::ofstream(CONFIGURATION_SCHEMA) << wanted;
  std::ifstream file(CONFIGURATION_SCHEMA);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), wanted) << "UPDATE_SCHEMA=1 writes it";
}

TEST(KeyTable, EveryExampleIsReadIntoTheFieldOfItsName) {
  std::set<std::string> known;
  for (const Section& section : sections()) {
    for (const Key& key : section.keys) {
      const std::string text = file_with(section, key);
      const Reading reading = parse_configuration({{"r.toml", text}});
      EXPECT_EQ(problems(reading), std::vector<std::string>{}) << text;
      const Row* row = find_row(reading.configuration, section, written(key));
      ASSERT_NE(row, nullptr) << text;
      EXPECT_EQ(row->value, key.example);
      EXPECT_EQ(row->origin.file, "r.toml");
      known.insert(row->section + "." + row->key);
      std::set<std::string> lines, typed;
      for (const Row& each : reading.configuration.rows)
        if (!each.origin.is_default()) lines.insert(each.section + "." + each.key);
      for (const auto& [name, is_set] : fields(reading.configuration))
        if (is_set) typed.insert(name);
      EXPECT_EQ(lines, typed) << text;
    }
  }
  for (const auto& [name, is_set] : fields({})) EXPECT_TRUE(known.contains(name)) << name << " has no row";
}

TEST(KeyTable, EveryDefaultIsReadAndPrintedAndEveryKeyIsExplained) {
  const std::string initial = initial_configuration(), pages = manual(sections());
  for (const Section& section : sections()) {
    const Reading bare =
        parse_configuration({{"r.toml", section.several() ? file_with(section, section.keys.front()) : std::string()}});
    for (const Key& key : section.keys) {
      EXPECT_NE(initial.find("# " + std::string(key.meaning)), std::string::npos) << key.name;
      EXPECT_NE(pages.find("]" + std::string(key.name) + " = "), std::string::npos) << key.name;
      if (*key.standard == '\0') continue;
      const Row* row = find_row(bare.configuration, section, key.name);
      ASSERT_NE(row, nullptr) << section.name << "." << key.name;
      EXPECT_EQ(row->text, key.standard);
      EXPECT_TRUE(row->origin.is_default());
      EXPECT_NE(printed(bare.configuration).find(row->key + " = " + row->value + " "), std::string::npos);
      // Written down, the default is no problem: it has the shape of its key.
      Problems wrong;
      TomlValue value;
      value.kind = key.field.shape->kind;
      value.text = key.standard;
      key.field.check(key, value, wrong);
      EXPECT_TRUE(wrong.empty()) << section.name << "." << key.name;
    }
  }
}

TEST(KeyTable, ARowIsAllThatAKeyNeeds) {
  // The field of `grace` under another name, in another section: nothing but the row says so.
  Table table = sections();
  Section& defaults = table[1];
  std::erase_if(defaults.keys, [](const Key& key) { return key.name == std::string("grace"); });
  table[0].keys.push_back(
      {"patience", field<shapes::kDuration, &Defaults::grace>, "7s", "How long it is borne.", "\"3m\""});
  const auto read = [&](const char* text) { return parse_configuration({{"r.toml", text}}, table); };
  EXPECT_EQ(read("").configuration.defaults.grace.value, 7s);
  const Reading written = read("[daemon]\npatience = \"2m\"\n");
  EXPECT_EQ(written.configuration.defaults.grace.value, 2min);
  EXPECT_EQ(written.configuration.defaults.grace.origin.text(), "r.toml:2");
  EXPECT_NE(printed(written.configuration, table).find("patience = \"2m\" "), std::string::npos);
  EXPECT_EQ(problems(read("[daemon]\npatience = \"long\"\n")),
            std::vector<std::string>{"r.toml:2:1: 'long' is not a duration"});
  EXPECT_EQ(problems(read("[daemon]\npatiense = \"2m\"\n")),
            std::vector<std::string>{"r.toml:2:1: unknown key 'patiense' - did you mean 'patience'?"});
  EXPECT_EQ(problems(read("[defaults]\ngrace = \"2m\"\n")),
            std::vector<std::string>{"r.toml:2:1: unknown key 'grace'"});
  EXPECT_NE(initial_configuration(table).find("# patience = \"7s\" "), std::string::npos);
  EXPECT_NE(manual(table).find("[daemon]patience = \"7s\" # How long it is borne."), std::string::npos);
}
