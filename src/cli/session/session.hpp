// What every verb shares: how to print, which driver to ask, where the books are. One object for one command.
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
  // Set by the options that verbs have in common.
  std::string output = "text";
  std::string units = "iec";
  std::string colour = "auto";
  std::string simulated_node;  ///< as --sim gave it
  std::string socket;          ///< of the daemon, as --socket or RATION_SOCKET gave it; empty: looked for
  Context context;             ///< of the commands that are printed
  bool simulated = false;
  bool yes = false;
  bool dry_run = false;

  [[nodiscard]] Format format() const;
  [[nodiscard]] Units display_units() const;
  [[nodiscard]] std::string size(Bytes bytes) const;
  [[nodiscard]] std::string size(const std::optional<Bytes>& bytes, const char* reason) const;

  /// Folder of the simulated driver with --sim, else empty: the machine's own. Sets RATION_SIM for whoever is started.
  [[nodiscard]] Result<std::string> driver_folder() const;
  [[nodiscard]] Result<machine::Machine> machine() const;
  [[nodiscard]] Result<book::Store> store() const { return book::Store::open(); }

  /// This session about the node on which the workload of that book runs.
  [[nodiscard]] Session about(const book::BookSnapshot& book) const;

  /// `text` with commands that are about the same node as this one.
  [[nodiscard]] std::string hint(std::string_view text) const { return in_context(text, context); }

  /// The same, without anything that a terminal obeys: for texts that quote what strangers or files say.
  [[nodiscard]] std::string shown(std::string_view text) const;

  /// `text` in a colour (an SGR number) where standard output is a terminal that wants it.
  [[nodiscard]] std::string painted(const std::string& text, int sgr) const;

  /// Prints `{"schema":"ration.VERB/1",…,"data":…}` on standard output. `more` is merged in. Every `fix` in it is about
  /// the same node as this command.
  void print_json(const std::string& verb, nlohmann::json data,
                  const nlohmann::json& more = nlohmann::json::object()) const;
  /// Something that is wrong, as one line on standard error, and what to type below it.
  void print_finding(const std::string& id, const std::string& what, const std::string& fix) const;
  /// The same of an error; as JSON on standard output too where that was asked for.
  void print_error(const std::string& verb, const Error& error) const;
};

/// The document as one line; names in it may hold any bytes.
[[nodiscard]] std::string one_line(const nlohmann::json& document);

/// Rows for people (aligned) and for csv (the keys as header).
class Table {
 public:
  struct Column {
    std::string title, key;
    bool right = false;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  void print(Format format) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Folder of the guard (`shim`) or the simulator (`sim`), beside this program. E1406.
[[nodiscard]] Result<std::string> library_folder(const std::string& kind);
/// What comes with the programs, as files: `share`, beside their folder.
[[nodiscard]] std::string share_folder();
/// A program that comes with ration, beside this one.
[[nodiscard]] std::string companion(const std::string& name);

/// Asks on a terminal; elsewhere only --yes is an answer.
[[nodiscard]] bool confirmed(const Session& session, const std::string& question);

/// Asks before `who` may hold less than it does; `again`: the command that says yes. E1205.
[[nodiscard]] Result<void> agree_to_shrink(const Session& session, const std::string& who, Bytes used, Bytes limit,
                                           const std::string& again);

/// Returns the arguments of `ration VERB …` with the simulated node of `session` behind the verb, where it has one.
[[nodiscard]] std::vector<std::string> with_sim(const Session& session, std::vector<std::string> arguments);

}  // namespace ration::cli
