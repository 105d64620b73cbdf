// `ration config init|print|validate|path`.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "admission/configured_promises.hpp"
#include "base/command.hpp"
#include "base/file.hpp"
#include "cli/session/node_client.hpp"
#include "cli/verbs/verbs.hpp"
#include "config/configuration.hpp"
#include "config/doubts.hpp"
#include "config/printer.hpp"
#include "machine/user_names.hpp"

namespace ration::cli {
namespace {

using config::ConfigurationFile;
using config::Layer;

/// Returns the file that `init` writes if no FILE is given: for root the machine's, for other users their own.
std::string own_path() {
  const auto files = config::configuration_files();
  return files.back().required || ::geteuid() != 0 ? files.back().path : files.front().path;
}

Error cannot_write(const std::string& path) {
  return {"E1611", fmt::format("{} cannot be written: {}.", path, std::strerror(errno)), "ration config init FILE", 5};
}

Error is_there_already(const std::string& path) {
  return {"E1610", fmt::format("{} exists already.", path), "ration config init --force   replaces it", 2};
}

/// Writes the file beside its place and then moves it there, so that no program reads half of it.
Result<void> write_configuration(const std::string& path, const std::string& text, bool replace) {
  const std::string beside = fmt::format("{}.{}", path, ::getpid());
  {
    const FileDescriptor file(::open(beside.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644));
    if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      const Error error = cannot_write(path);
      if (file) ::unlink(beside.c_str());
      return tl::unexpected(error);
    }
  }
  // link() fails where a file exists already; rename() replaces it.
  const bool done = replace ? ::rename(beside.c_str(), path.c_str()) == 0 : ::link(beside.c_str(), path.c_str()) == 0;
  const int why = errno;
  ::unlink(beside.c_str());
  errno = why;
  if (done) return {};
  if (why == EEXIST) return tl::unexpected(is_there_already(path));
  return tl::unexpected(cannot_write(path));
}

Result<int> init(const Session& session, const ConfigOptions& options) {
  const std::filesystem::path path = options.file.empty() ? own_path() : options.file;
  std::error_code error;
  if (session.dry_run && !options.force && std::filesystem::exists(path, error))
    return tl::unexpected(is_there_already(path));
  if (!session.dry_run && path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (auto good =
          session.dry_run ? Result<void>() : write_configuration(path, config::initial_configuration(), options.force);
      !good)
    return tl::unexpected(good.error());
  if (session.format() == Format::kJson)
    session.print_json("config", {{"action", "init"}, {"path", path.string()}});
  else
    fmt::print("{}: {}; no key is set yet\n", path.string(), session.dry_run ? "would be written" : "written");
  return 0;
}

/// Returns comments for the tenants whose values people have changed since, which the files do not show.
std::string changed_since(const Session& session) {
  auto daemon = NodeClient::find(session);
  if (!daemon || !*daemon) return "";
  std::string comments;
  for (const auto& row : (*daemon)->get("/api/v1/tenants").value_or(nlohmann::json::array()))
    if (const std::string name = row.at("tenant"); row.at("changes").get<std::uint64_t>() > 0)
      comments += fmt::format("# {} was changed with ration set; its values now: {}\n", name,
                              command({"explain", "--tenant", name}));
  return comments.empty() ? "" : "\n" + comments;
}

Result<int> print(const Session& session) {
  RATION_TRY(const auto configuration, config::read_configuration());
  if (session.format() != Format::kJson) {
    fmt::print("{}{}", session.shown(config::printed(configuration)), changed_since(session));
    return 0;
  }
  auto settings = nlohmann::json::array();
  for (const config::Row& row : configuration.rows) {
    const bool written = !row.origin.is_default();
    nlohmann::json entry{
        {"section", row.section}, {"key", row.key}, {"value", row.value}, {"origin", row.origin.text()}};
    entry["item"] = row.item.empty() ? nlohmann::json() : nlohmann::json(row.item);
    if (row.item.empty()) entry["item_na"] = "written once";
    entry["line"] = written ? nlohmann::json(row.origin.place.line) : nlohmann::json();
    entry["column"] = written ? nlohmann::json(row.origin.place.column) : nlohmann::json();
    if (!written) entry["line_na"] = entry["column_na"] = "not written in a file";
    settings.push_back(std::move(entry));
  }
  session.print_json("config", {{"action", "print"}, {"settings", settings}});
  return 0;
}

nlohmann::json to_json(const std::vector<FileProblem>& problems) {
  auto rows = nlohmann::json::array();
  for (const FileProblem& problem : problems)
    rows.push_back({{"file", problem.file},
                    {"line", problem.place.line},
                    {"column", problem.place.column},
                    {"message", problem.what},
                    {"fix", problem.fix}});
  return rows;
}

/// Returns what is valid but probably not meant so, on this machine.
std::vector<FileProblem> notes_on(const config::Configuration& configuration) {
  const auto is_file = [](const std::string& path) { return ::access(path.c_str(), F_OK) == 0 || errno != ENOENT; };
  return config::doubts(configuration, {machine::is_user, machine::is_group, is_file});
}

bool has_guarantees(const config::Configuration& configuration) {
  return std::any_of(configuration.tenants.begin(), configuration.tenants.end(),
                     [](const config::Tenant& tenant) { return tenant.guarantee.value.is_set(); });
}

Result<int> validate(const Session& session, const ConfigOptions& options) {
  std::vector<ConfigurationFile> files = config::configuration_files();
  if (!options.file.empty()) files = {{options.file, true}};
  const auto layers = config::read_layers(files);
  if (!layers && !options.file.empty())
    return fail("E1601", layers.error().what,
                "ration config path   (to check another program's output: … | ration config validate /dev/stdin)", 2);
  if (!layers) return tl::unexpected(layers.error());
  config::Reading parsed = config::parse_configuration(*layers);
  std::vector<FileProblem>& problems = parsed.problems;
  const auto machine = session.machine();
  if (machine && problems.empty()) problems = admission::broken_promises(parsed.configuration, machine->devices);
  const std::vector<FileProblem> notes = problems.empty() ? notes_on(parsed.configuration) : std::vector<FileProblem>{};
  auto read = nlohmann::json::array();
  for (const FileProblem& problem : problems)
    session.print_finding("E1601", place_text(problem) + ": " + problem.what, problem.fix);
  for (const Layer& layer : *layers) {
    read.push_back(layer.name);
    if (problems.empty() && session.format() != Format::kJson) fmt::print("{}: good\n", session.shown(layer.name));
  }
  if (layers->empty() && session.format() != Format::kJson)
    fmt::print("no configuration file: all values are defaults\n");
  if (session.format() == Format::kJson)
    session.print_json(
        "config",
        {{"action", "validate"}, {"files", read}, {"problems", to_json(problems)}, {"notes", to_json(notes)}});
  else
    for (const FileProblem& note : notes)
      fmt::print("note: {}\n      {}\n", session.shown(place_text(note) + ": " + note.what), session.shown(note.fix));
  if (const bool promises = has_guarantees(parsed.configuration);
      promises && !machine && problems.empty() && session.format() != Format::kJson)
    fmt::print(
        "note: no GPU is found, so the sum of the guarantees is not checked\n"
        "      {}   checks it for two GPUs, each a T4\n",
        command({"config", "validate", options.file, "--sim=T4*2"}));
  return problems.empty() ? 0 : 2;
}

Result<int> path(const Session& session) {
  Table table({{"FILE", "file"}, {"STATE", "state"}});
  auto rows = nlohmann::json::array();
  for (const ConfigurationFile& file : config::configuration_files()) {
    std::error_code error;
    const bool there = std::filesystem::exists(file.path, error);
    const char* state = ::access(file.path.c_str(), R_OK) == 0 ? "read" : there ? "not readable" : "not there";
    table.add({file.path, state});
    rows.push_back({{"path", file.path}, {"state", state}});
  }
  if (session.format() == Format::kJson)
    session.print_json("config", {{"action", "path"}, {"files", rows}});
  else
    table.print(session.format());
  return 0;
}

/// Makes the daemon read the configuration again. If a file has a mistake, the daemon keeps its values and says so.
Result<int> reload_configuration(const Session& session) {
  RATION_TRY(auto daemon, NodeClient::require(session));
  if (session.dry_run) {
    RATION_TRY(config::read_configuration());
    if (session.format() == Format::kJson)
      session.print_json("config", {{"action", "reload"}, {"changes", nlohmann::json::array()}});
    else
      fmt::print(
          "would make the daemon at {} read the configuration again; ration config print shows the configuration\n",
          daemon.socket());
    return 0;
  }
  RATION_TRY(const auto answer, daemon.post("/api/v1/reload", nlohmann::json::object()));
  const nlohmann::json& changes = answer.at("changes");
  if (session.format() == Format::kJson) {
    session.print_json("config", {{"action", "reload"}, {"changes", changes}}, {{"source", "daemon"}});
    return 0;
  }
  if (changes.empty()) fmt::print("read again: nothing changed\n");
  for (const auto& line : changes) fmt::print("{}\n", line.get<std::string>());
  return 0;
}

}  // namespace

Result<int> config(const Session& session, const ConfigOptions& options) {
  const bool takes_file = options.action == "init" || options.action == "validate";
  if (!options.file.empty() && !takes_file)
    return fail("E1001", fmt::format("config {} does not accept a file.", options.action), "ration config --help", 2);
  if (options.action == "init") return init(session, options);
  if (options.action == "validate") return validate(session, options);
  if (options.action == "reload") return reload_configuration(session);
  return options.action == "print" ? print(session) : path(session);
}

}  // namespace ration::cli
