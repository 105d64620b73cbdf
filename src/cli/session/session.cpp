#include "cli/session/session.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <filesystem>
#include <limits>

#include "base/clock.hpp"
#include "base/command_json.hpp"
#include "base/gpu_models.hpp"
#include "base/own_folder.hpp"
#include "base/printable.hpp"
#include "base/time.hpp"
#include "base/utf8.hpp"
#include "cli/session/simulated.hpp"
#include "machine/user_names.hpp"

namespace ration::cli {
namespace {

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return quoted + "\"";
}

/// Returns the columns of the terminal that a character takes: 2 for a wide one, 0 for a combining mark. A character
/// that the locale does not know counts as 1.
std::size_t columns_of(char32_t character) {
  const int width = ::wcwidth(static_cast<wchar_t>(character));
  return width < 0 ? 1 : static_cast<std::size_t>(width);
}

/// Returns the beginning of a text that takes at most `columns`.
std::string_view first_columns(std::string_view text, std::size_t columns) {
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view next = rest;
    const std::size_t width = columns_of(take_character(next));
    if (width > columns) break;
    columns -= width;
    rest = next;
  }
  return text.substr(0, text.size() - rest.size());
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

std::size_t text_columns(std::string_view cell) {
  std::size_t width = 0;
  while (!cell.empty()) {
    if (cell.front() == '\033')
      cell.remove_prefix(std::min(cell.find('m'), cell.size() - 1) + 1);
    else
      width += columns_of(take_character(cell));
  }
  return width;
}

std::size_t terminal_columns() {
  winsize size{};
  const bool is_terminal = ::isatty(STDOUT_FILENO) != 0 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return is_terminal && size.ws_col > 0 ? size.ws_col : std::numeric_limits<std::size_t>::max();
}

std::string one_line(const nlohmann::json& document) {
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Format Session::format() const {
  return output == "json" || output == "jsonl" ? Format::kJson : output == "csv" ? Format::kCsv : Format::kText;
}

Units Session::display_units() const {
  if (format() == Format::kCsv || units == "bytes") return Units::kBytes;
  return units == "si" ? Units::kSi : Units::kIec;
}

std::string Session::size(Bytes bytes) const { return format_size(bytes, display_units()); }

std::string Session::limit_from(Bytes bytes) const { return format_size_up(bytes, display_units()); }

std::string Session::size(const std::optional<Bytes>& bytes, const char* reason) const {
  return bytes ? size(*bytes) : fmt::format("n/a ({})", reason);
}

std::string Session::shown(std::string_view text) const {
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += (at == 0 ? "" : "\n") + printable(std::string(text.substr(at, end - at)));
    at = end + 1;
  }
  return hint(out);
}

Session Session::about(const book::BookSnapshot& book) const {
  Session session = *this;
  if (simulated || book.simulation.empty()) return session;
  session.simulated = true;
  session.simulated_node = session.context.simulated = book.simulation;
  return session;
}

Result<std::string> Session::driver_folder() const {
  if (!simulated) {
    const char* behind_the_guard = std::getenv("RATION_DRIVER_PATH");
    return std::string(behind_the_guard != nullptr ? behind_the_guard : "");
  }
  if (!simulated_node.empty()) ::setenv("RATION_SIM", simulated_node.c_str(), 1);
  return library_folder("sim").map(simulated_driver_folder);
}

Result<machine::Machine> Session::machine() const {
  RATION_TRY(const auto folder, driver_folder());
  auto machine = machine::query_devices(folder);
  if (!machine && simulated) {
    const char* spec = std::getenv("RATION_SIM");
    const std::string described = spec != nullptr && *spec != '\0' ? spec : "T4";
    if (const auto node = simulated_node_folder(described); !node.problem.empty())
      return fail("E1417", fmt::format("the simulated node cannot be kept in {}: {}.", node.path, node.problem),
                  "RATION_SIM_DIR=/a/folder/of/yours", 1);
    return fail("E1417", fmt::format("'{}' does not describe a simulated node.", described),
                fmt::format("--sim=T4, --sim='T4:16GiB*2,A100-40'; models: {}; any other model with its size: "
                            "NAME:24GiB",
                            gpu_model_names()),
                2);
  }
  return machine;
}

std::string Session::painted(const std::string& text, int sgr) const {
  if (format() != Format::kText) return text;
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal != nullptr && std::strcmp(terminal, "dumb") == 0;
  bool wanted = colour == "always";
  if (colour == "auto" && !is_set("NO_COLOR"))
    wanted = is_set("CLICOLOR_FORCE") || (::isatty(STDOUT_FILENO) != 0 && !dumb);
  return wanted ? fmt::format("\033[{}m{}\033[0m", sgr, text) : text;
}

void Session::print_json(const std::string& verb, nlohmann::json data, const nlohmann::json& more) const {
  nlohmann::json document{{"schema", "ration." + verb + "/1"}, {"time", utc(unix_time_ns())},
                          {"host", machine::host_name()},      {"source", simulated ? "sim" : "direct"},
                          {"data", std::move(data)},           {"warnings", nlohmann::json::array()}};
  document.update(more);
  add_command_options(document, command_options(context));
  fmt::print("{}\n", one_line(document));
}

void Session::print_finding(const std::string& id, const std::string& what, const std::string& fix) const {
  fmt::print(stderr, "{} ration: {}\n", id, shown(what));
  if (!fix.empty()) fmt::print(stderr, "      {}\n", shown(fix));
}

void Session::print_error(const std::string& verb, const Error& error) const {
  print_finding(error.id, error.what, error.fix);
  if (format() != Format::kJson) return;
  fmt::print(
      "{}\n",
      one_line(
          {{"schema", "ration." + verb + "/1"},
           {"error",
            {{"id", error.id}, {"message", error.what}, {"fix", hint(error.fix)}, {"exit_code", error.exit_code}}}}));
}

void Table::print(Format format) const {
  if (format == Format::kCsv) {
    std::vector<std::string> keys;
    for (const Column& column : columns_) keys.push_back(column.key);
    fmt::print("{}\n", fmt::join(keys, ","));
    for (const auto& row : rows_) {
      std::vector<std::string> cells;
      for (const std::string& cell : row) cells.push_back(csv_cell(cell));
      fmt::print("{}\n", fmt::join(cells, ","));
    }
    return;
  }
  print_text();
}

/// Where the cells of a table stand on this terminal.
struct Table::Layout {
  std::vector<std::size_t> widths;
  std::vector<bool> shown;
  bool last_below = false;  ///< true if the last column is printed on a line of its own

  /// Returns the columns of the terminal that a line takes.
  [[nodiscard]] std::size_t width() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (shown[i] && !(last_below && i + 1 == widths.size())) sum += widths[i] + 2;
    return sum - std::min<std::size_t>(sum, 2);
  }
};

Table::Layout Table::layout() const {
  Layout all;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    all.shown.push_back(!columns_[i].optional ||
                        std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) { return row[i] != "-"; }));
    std::size_t most = text_columns(columns_[i].title);
    for (const auto& row : rows_) most = std::max(most, text_columns(row[i]));
    all.widths.push_back(most);
  }
  const std::size_t room = terminal_columns();
  if (all.width() > room) all.last_below = columns_.back().title.empty();
  // Cuts names to at least `least` characters, where that is enough: a line that is too long anyhow keeps them whole.
  const auto cut_names = [&](std::size_t least) {
    const std::size_t over = all.width() - std::min(all.width(), room);
    const bool is_enough = over <= all.widths[0] - std::min(all.widths[0], least);
    if (is_enough) all.widths[0] -= over;
    return is_enough;
  };
  while (!cut_names(24)) {
    std::size_t spare = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (all.shown[i] && columns_[i].spare > columns_[spare].spare) spare = i;
    if (!all.shown[spare] || columns_[spare].spare == 0) break;
    all.shown[spare] = false;
  }
  (void)cut_names(8);
  return all;
}

void Table::print_text() const {
  const Layout all = layout();
  const std::size_t in_line = columns_.size() - (all.last_below ? 1 : 0);
  const auto line = [&](const auto& cell_of) {
    std::string text;
    for (std::size_t i = 0; i < in_line; ++i) {
      if (!all.shown[i]) continue;
      std::string cell = cell_of(i);
      if (text_columns(cell) > all.widths[i]) cell = std::string(first_columns(cell, all.widths[i] - 1)) + "…";
      const std::string pad(all.widths[i] - std::min(all.widths[i], text_columns(cell)), ' ');
      text += (i == 0 ? "" : "  ") + (columns_[i].right ? pad + cell : cell + pad);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    fmt::print("{}\n", text);
  };
  line([&](std::size_t i) { return columns_[i].title; });
  for (const auto& row : rows_) {
    line([&](std::size_t i) { return row[i]; });
    if (all.last_below && !row.back().empty()) fmt::print("  {}\n", row.back());
  }
}

namespace {

/// Returns the path of this program; empty if /proc is missing. Reads it once, since the package may be replaced
/// while a daemon runs.
const std::filesystem::path& own_path() {
  static const std::filesystem::path path = [] {
    std::error_code error;
    return std::filesystem::canonical("/proc/self/exe", error);
  }();
  return path;
}

}  // namespace

Result<std::string> library_folder(const std::string& kind) {
  std::error_code error;
  if (own_path().empty())
    return fail("E1406", "the path of this program is not known: /proc/self/exe cannot be read.",
                "mount -t proc proc /proc", 125);
  const auto here = own_path().parent_path().parent_path();
  // The libraries lie under lib/ration where ration is installed, and beside bin in a build tree.
  for (const auto& folder : {here / "lib" / "ration" / kind, here / kind}) {
    if (std::filesystem::exists(folder / "libcuda.so.1", error)) return folder.string();
  }
  return fail("E1406", fmt::format("the {} libraries are not beside this program.", kind),
              "Install the whole package again.", 125);
}

std::string share_folder() { return own_path().parent_path().parent_path() / "share"; }

std::string companion(const std::string& name) { return own_path().parent_path() / name; }

bool confirmed(const Session& session, const std::string& question) {
  if (session.yes) return true;
  // A person must see the question and give the answer. If a program runs this one or collects its output, one of these
  // streams is no terminal.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::isatty(stream) == 0) return false;
  fmt::print(stderr, "{} [y/N] ", question);
  const int answer = std::getchar();
  return answer == 'y' || answer == 'Y';
}

Result<void> agree_to_shrink(const Session& session, const std::string& who, Bytes used, Bytes limit,
                             const std::string& again) {
  fmt::print(stderr, "{} holds {}, {} more than the new limit. Allocations are denied until it holds less than {}.\n",
             who, session.size(used), session.size(used - limit), session.size(limit));
  if (confirmed(session, "Proceed?")) return {};
  return fail("E1205", "you did not confirm a limit below the held memory; nothing was changed.", again, 4);
}

std::vector<std::string> with_sim(const Session& session, std::vector<std::string> arguments) {
  if (session.simulated)
    arguments.insert(arguments.begin() + 1,
                     session.simulated_node.empty() ? "--sim" : "--sim=" + session.simulated_node);
  return arguments;
}

}  // namespace ration::cli
