#include "cli/session/scenario.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>

#include "base/strings.hpp"
#include "base/units.hpp"
#include "base/whole_file.hpp"
#include "cli/session/session.hpp"
#include "config/configuration.hpp"

namespace ration::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOwnTables[] = {"scenario", "program", "command", "moment"};
constexpr int kMaxCopies = 64;

fs::path scenario_folder() { return share_folder() + "/ration/scenarios"; }

bool is_program(const fs::path& path) {
  std::error_code error;
  return path.extension().empty() && fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

bool is_own(const std::string& table) {
  return std::find(std::begin(kOwnTables), std::end(kOwnTables), table) != std::end(kOwnTables);
}

/// Returns the table that a line begins: `program` for `[[program]]` and `[program.x]`; empty for any other line.
std::string header_of(const std::string& line) {
  std::size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos || line[at] != '[') return {};
  at = line.find_first_not_of("[ \t", at);
  const auto is_letter = [](char letter) { return (letter >= 'a' && letter <= 'z') || letter == '_'; };
  std::size_t end = at;
  while (end < line.size() && is_letter(line[end])) ++end;
  return at == std::string::npos ? std::string{} : line.substr(at, end - at);
}

/// Replaces the scenario's own tables by blank lines, so that errors in the rest keep their line numbers.
std::string configuration_part(const std::string& text) {
  std::string kept;
  bool own = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (const std::string header = header_of(line); !header.empty()) own = is_own(header);
    kept += (own ? std::string{} : line) + "\n";
    at = end + 1;
  }
  return kept;
}

std::string milliseconds(Nanoseconds time, double speed) {
  return fmt::format("{}ms", std::max<long>(1, static_cast<long>(static_cast<double>(time.count()) / 1e6 / speed)));
}

/// Reads the fields of tables and collects every mistake.
class Reader {
 public:
  Reader(std::string file, double speed, std::vector<FileProblem>& problems)
      : file_(std::move(file)), speed_(speed), problems_(problems) {}

  using Take = std::function<void(const TomlValue&)>;
  using Fields = std::vector<std::pair<std::string, Take>>;

  void table(const TomlValue& node, const Fields& fields) {
    if (node.kind != TomlValue::Kind::kTable) return wrong(node, "this must be a table", "[[program]]");
    for (const TomlValue& item : node.items) {
      const auto field =
          std::find_if(fields.begin(), fields.end(), [&](const auto& each) { return each.first == item.name; });
      if (field != fields.end()) {
        field->second(item);
        continue;
      }
      std::vector<std::string> names;
      for (const auto& each : fields) names.push_back(each.first);
      wrong(item, fmt::format("there is no key '{}' here.{}", item.name, suggestion(item.name, names)),
            fmt::format("Known: {}", fmt::join(names, ", ")));
    }
  }

  Take text(std::string& out) {
    return [this, &out](const TomlValue& node) {
      if (node.kind == TomlValue::Kind::kText)
        out = node.text;
      else
        wrong(node, fmt::format("{} must be a text", node.name), node.name + " = \"…\"");
    };
  }
  Take one_of(std::string& out, std::vector<std::string> words) {
    return [this, &out, words = std::move(words)](const TomlValue& node) {
      if (std::find(words.begin(), words.end(), node.text) != words.end())
        out = node.text;
      else
        wrong(node, fmt::format("{} must be one of: {}", node.name, fmt::join(words, ", ")),
              node.name + " = \"" + words.front() + "\"");
    };
  }
  Take texts(std::vector<std::string>& out) {
    return [this, &out](const TomlValue& node) {
      for (const TomlValue& item : node.items) {
        if (item.kind != TomlValue::Kind::kText)
          return wrong(item, "this must be a list of strings", node.name + " = [\"…\"]");
        out.push_back(item.text);
      }
      if (node.kind != TomlValue::Kind::kList)
        wrong(node, fmt::format("{} must be a list of strings", node.name), node.name + " = [\"…\"]");
    };
  }
  Take size(std::string& out) {
    return [this, &out](const TomlValue& node) {
      if (node.kind != TomlValue::Kind::kText)
        return wrong(node, fmt::format("{} must be a size in quotes", node.name), node.name + " = \"4GiB\"");
      const Bytes any{std::uint64_t{1} << 40};
      const auto bytes = parse_size(node.text, any, any);
      if (!bytes) return wrong(node, bytes.error().what, bytes.error().fix);
      out = node.text;
    };
  }
  Take whole(int& out, int least, int most) {
    return [this, &out, least, most](const TomlValue& node) {
      int number = least - 1;
      if (node.kind == TomlValue::Kind::kWhole && node.text.size() < 8) number = std::stoi(node.text);
      if (number < least || number > most)
        return wrong(node, fmt::format("{} must be an integer from {} to {}", node.name, least, most),
                     node.name + " = 3");
      out = number;
    };
  }
  Take flag(bool& out) {
    return [this, &out](const TomlValue& node) {
      if (node.kind == TomlValue::Kind::kFlag)
        out = node.text == "true";
      else
        wrong(node, fmt::format("{} must be true or false", node.name), node.name + " = true");
    };
  }
  Take time(Nanoseconds& out) {
    return [this, &out](const TomlValue& node) {
      const auto span = parse_duration(node.text);
      if (node.kind != TomlValue::Kind::kText || !span)
        return wrong(node, fmt::format("{} must be a duration", node.name), node.name + " = \"20s\"");
      out = Nanoseconds(static_cast<std::int64_t>(static_cast<double>(*span) / speed_));
    };
  }
  void wrong(const TomlValue& node, std::string what, std::string fix) {
    problems_.push_back({file_, node.key, std::move(what), std::move(fix)});
  }
  void needs(const TomlValue& node, bool there, const char* what, const char* fix) {
    if (!there) wrong(node, fmt::format("{} is missing", what), fix);
  }

 private:
  std::string file_;
  double speed_;
  std::vector<FileProblem>& problems_;
};

void read_program(Reader& reader, const TomlValue& node, std::vector<ScenarioProgram>& programs) {
  ScenarioProgram program;
  int copies = 1;
  Nanoseconds every{};
  reader.table(node, {{"name", reader.text(program.name)},
                      {"tenant", reader.text(program.tenant)},
                      {"labels", reader.texts(program.labels)},
                      {"gpu", reader.text(program.gpu)},
                      {"limit", reader.size(program.limit)},
                      {"guarantee", reader.size(program.guarantee)},
                      {"on_deny", reader.text(program.on_deny)},
                      {"start", reader.time(program.start)},
                      {"copies", reader.whole(copies, 1, kMaxCopies)},
                      {"every", reader.time(every)},
                      {"trace", reader.text(program.trace)},
                      {"over", reader.time(program.over)},
                      {"loops", reader.whole(program.loops, 1, 1'000'000)},
                      {"steps", reader.texts(program.steps)},
                      {"block", reader.size(program.block)},
                      {"via", reader.one_of(program.via, {"malloc", "async", "vmm", "grow", "cache"})},
                      {"refused", reader.one_of(program.refused, {"end", "go-on"})},
                      {"repeat", reader.flag(program.repeat)}});
  reader.needs(node, config::is_name(program.name), "a name", "name = \"train\"");
  reader.needs(node, program.trace.empty() != program.steps.empty(), "the choice of either trace or steps",
               "steps = [\"2GiB:10s\"], or trace = \"medium_512_inference\"");
  for (int copy = 0; copy < copies; ++copy) {
    ScenarioProgram one = program;
    if (copies > 1) one.name = fmt::format("{}-{:02}", program.name, copy + 1);
    one.start += every * copy;
    programs.push_back(std::move(one));
  }
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    if (end > at) words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

void read_command(Reader& reader, const TomlValue& node, std::vector<ScenarioCommand>& commands) {
  ScenarioCommand command;
  std::vector<std::string> lines;
  reader.table(
      node, {{"at", reader.time(command.at)}, {"waits", reader.text(command.waits)}, {"ration", reader.texts(lines)}});
  static const std::vector<std::string> kVerbs{"set", "trim", "suspend", "resume", "ps", "explain"};
  bool known = !lines.empty();
  for (const std::string& line : lines) {
    command.lines.push_back(words_of(line));
    const auto& words = command.lines.back();
    known = known && !words.empty() && std::find(kVerbs.begin(), kVerbs.end(), words.front()) != kVerbs.end();
  }
  reader.needs(node, known, "a command (set, trim, suspend, resume, ps or explain)",
               "ration = [\"set train --limit 20GiB\"]");
  commands.push_back(std::move(command));
}

/// Replaces each duration after which a policy acts by the duration divided by `speed`.
void hurry(std::string& text, const TomlValue& document, double speed) {
  std::vector<std::pair<FilePlace, std::string>> found;
  for (const TomlValue& table : document.items)
    if (table.name == "policy")
      for (const TomlValue& policy : table.items)
        for (const TomlValue& key : policy.items)
          if (key.name == "idle")
            for (const TomlValue& field : key.items)
              if (field.name == "after") found.emplace_back(field.place, field.text);
  for (const auto& [place, written] : found) {
    const auto span = parse_duration(written);
    std::size_t line = 0;
    for (std::size_t number = 1; number < place.line; ++number) line = text.find('\n', line) + 1;
    const std::size_t at = text.find(written, line + place.column - 1);
    if (span && at != std::string::npos)
      text.replace(at, written.size(), milliseconds(Nanoseconds(static_cast<std::int64_t>(*span)), speed));
  }
}

Error unusable(const std::vector<FileProblem>& problems) {
  Error error = config::rejected(problems);
  error.id = "E1441";
  return error;
}

void read_tables(Reader& reader, const TomlValue& document, Scenario& scenario) {
  for (const TomlValue& table : document.items) {
    if (table.name == "scenario") {
      reader.table(table, {{"about", reader.text(scenario.about)},
                           {"node", reader.text(scenario.node)},
                           {"length", reader.time(scenario.length)},
                           {"try", reader.text(scenario.try_this)}});
      reader.needs(table, !scenario.node.empty(), "the node", "node = \"A100-40*2\"");
      reader.needs(table, scenario.length.count() > 0, "its length", "length = \"60s\"");
      continue;
    }
    for (const TomlValue& item : table.items) {
      if (table.name == "program") read_program(reader, item, scenario.programs);
      if (table.name == "command") read_command(reader, item, scenario.commands);
      if (table.name != "moment") continue;
      ScenarioMoment moment;
      reader.table(item, {{"at", reader.time(moment.at)}, {"text", reader.text(moment.text)}});
      scenario.moments.push_back(std::move(moment));
    }
  }
}

}  // namespace

std::vector<std::string> scenario_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator each(scenario_folder(), error), end; !error && each != end; each.increment(error))
    if (each->path().extension() == ".toml" || is_program(each->path())) names.push_back(each->path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

std::string scenario_program(const std::string& name) {
  const fs::path path = scenario_folder() / name;
  return path.filename() == name && is_program(path) ? path.string() : "";
}

Result<Scenario> read_scenario(const std::string& name, double speed) {
  const bool is_file = fs::path(name).extension() == ".toml";
  const fs::path path = is_file ? fs::path(name) : scenario_folder() / (name + ".toml");
  // A name must not lead out of the folder of scenarios.
  const auto text = is_file || path.stem() == name ? read_whole(path) : tl::unexpected(std::string());
  std::error_code error;
  if (!text) {
    const auto names = scenario_names();
    const std::string why = fs::exists(path, error) && !text.error().empty()
                                ? fmt::format("{} is no scenario: {}.", path.string(), text.error())
                                : fmt::format("there is no scenario '{}'.{}", name, suggestion(name, names));
    return fail("E1441", why,
                fmt::format("ration demo --scenario {}, or a file of yours: FILE.toml", fmt::join(names, "|")), 2);
  }
  const auto document = read_toml(*text, path.string());
  if (!document) return tl::unexpected(unusable({document.error()}));
  Scenario scenario;
  scenario.name = path.stem();
  scenario.configuration = configuration_part(*text);
  std::vector<FileProblem> problems;
  Reader reader(path.string(), speed, problems);
  read_tables(reader, *document, scenario);
  reader.needs(*document, !scenario.programs.empty(), "a program", "[[program]]");
  reader.needs(*document, !scenario.node.empty(), "the table [scenario]", "[scenario]");
  for (FileProblem& problem : config::parse_configuration({{path.string(), scenario.configuration}}).problems)
    problems.push_back(std::move(problem));
  if (!problems.empty()) return tl::unexpected(unusable(problems));
  if (speed != 1) hurry(scenario.configuration, *document, speed);
  const auto sooner = [](const auto& left, const auto& right) { return left.start < right.start; };
  std::stable_sort(scenario.programs.begin(), scenario.programs.end(), sooner);
  const auto earlier = [](const auto& left, const auto& right) { return left.at < right.at; };
  std::stable_sort(scenario.commands.begin(), scenario.commands.end(), earlier);
  std::stable_sort(scenario.moments.begin(), scenario.moments.end(), earlier);
  return scenario;
}

}  // namespace ration::cli
