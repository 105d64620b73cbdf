// The session of one command: how to print, which driver to query, where the books are. Used by every verb.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "book/store.hpp"
#include "cli/session/context.hpp"
#include "machine/devices.hpp"

namespace ration::cli {

enum class Format { kText, kJson, kCsv };

class Session {
 public:
  // Values of the options that verbs have in common.
  std::string output = "text";
  std::string units = "iec";
  std::string colour = "auto";
  std::string simulated_node;  ///< value of --sim
  std::string socket;          ///< value of --socket or RATION_SOCKET; empty to look in the usual places
  Context context;             ///< node that printed commands name
  bool simulated = false;
  bool yes = false;
  bool dry_run = false;

  [[nodiscard]] Format format() const;
  [[nodiscard]] Units display_units() const;
  [[nodiscard]] std::string size(Bytes bytes) const;
  [[nodiscard]] std::string size(const std::optional<Bytes>& bytes, const char* reason) const;
  /// Formats the smallest limit that suffices, rounded up.
  [[nodiscard]] std::string limit_from(Bytes bytes) const;

  /// Returns the folder of the driver: with --sim that of the simulated driver, otherwise the value of
  /// RATION_DRIVER_PATH. An empty text means the driver of this machine. With --sim, sets RATION_SIM for the programs
  /// that this process starts.
  [[nodiscard]] Result<std::string> driver_folder() const;
  [[nodiscard]] Result<machine::Machine> machine() const;
  [[nodiscard]] Result<book::Store> store() const { return book::Store::open(); }

  /// Returns a copy of this session that is about the node on which the workload of that book runs.
  [[nodiscard]] Session about(const book::BookSnapshot& book) const;

  /// Returns `text` after adding to each command in it the options that name this session's node.
  [[nodiscard]] std::string hint(std::string_view text) const { return in_context(text, context); }

  /// Returns the text of hint() without control characters. Meant for texts that quote files or other users' programs.
  [[nodiscard]] std::string shown(std::string_view text) const;

  /// Returns `text` in a colour (an SGR number), unless the output is for programs, or --color, the environment or
  /// standard output rules colours out.
  [[nodiscard]] std::string painted(const std::string& text, int sgr) const;

  /// Prints `{"schema":"ration.VERB/1",…,"data":…}` on standard output, merged with `more`. Adds the options that name
  /// this session's node to the commands in every `fix` of the document.
  void print_json(const std::string& verb, nlohmann::json data,
                  const nlohmann::json& more = nlohmann::json::object()) const;
  /// Prints a finding as one line on standard error, with the fix on the line below.
  void print_finding(const std::string& id, const std::string& what, const std::string& fix) const;
  /// Prints an error as print_finding() prints a finding, and with -o json also as a document on standard output.
  void print_error(const std::string& verb, const Error& error) const;
};

/// Returns the columns of a terminal that a text takes, without the sequences that colour it.
[[nodiscard]] std::size_t text_columns(std::string_view text);
/// Returns the columns of the terminal on standard output; without a terminal, more than any line has.
[[nodiscard]] std::size_t terminal_columns();

/// Returns the document as one line. Names in it may hold any bytes.
[[nodiscard]] std::string one_line(const nlohmann::json& document);

/// A table that prints its rows aligned, or as csv with the keys as header. On a terminal that is too narrow, text
/// without a title gets a line of its own, spare columns are left out, and names are cut; no number is.
class Table {
 public:
  struct Column {
    std::string title, key;
    bool right = false;
    bool optional = false;  ///< true to leave the column out of text if each cell is `-`
    int spare = 0;          ///< a narrow terminal leaves out the columns with the largest number first; 0: none of them
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  void print(Format format) const;

 private:
  struct Layout;
  [[nodiscard]] Layout layout() const;
  void print_text() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Returns the folder of the guard (`shim`) or of the simulator (`sim`) beside this program. Fails with E1406.
[[nodiscard]] Result<std::string> library_folder(const std::string& kind);
/// Returns the folder of the installed data, `share` beside the folder of the programs.
[[nodiscard]] std::string share_folder();
/// Returns the path of another program of ration, which lies beside this one.
[[nodiscard]] std::string companion(const std::string& name);

/// Asks a question on a terminal and returns true for yes. Without a terminal, returns true only with --yes.
[[nodiscard]] bool confirmed(const Session& session, const std::string& question);

/// Asks for confirmation before `who` gets a limit below `used`. Without confirmation, returns E1205 with the command
/// `again` as its fix.
[[nodiscard]] Result<void> agree_to_shrink(const Session& session, const std::string& who, Bytes used, Bytes limit,
                                           const std::string& again);

/// Returns the arguments of `ration VERB …` with the session's simulated node, if it has one, after the verb.
[[nodiscard]] std::vector<std::string> with_sim(const Session& session, std::vector<std::string> arguments);

}  // namespace ration::cli
