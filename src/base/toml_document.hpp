// A TOML document as a plain tree in which every key and every value has its line and column. Used by the
// configuration, the scenarios of `ration demo` and the simulator; its source is the only file that uses the TOML
// library. Promises: any bytes at all may be given (fuzzed: tests/fuzz/settings_fuzz.cpp); an unreadable document is
// reported as a problem with its place, never a crash; no document makes the reader use more than a few times its own
// size of memory or stack.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace ration {

/// Line and column (in bytes) in a file, both from 1.
struct FilePlace {
  std::size_t line = 1, column = 1;
};

/// A part of a configuration file that cannot be used. `what` and `fix` as in Error.
struct FileProblem {
  std::string file;
  FilePlace place;
  std::string what, fix;
};

/// Returns `FILE:LINE:COLUMN`.
[[nodiscard]] std::string place_text(const FileProblem& problem);

/// A value of a document.
struct TomlValue {
  enum class Kind { kText, kWhole, kFlag, kList, kTable, kOther };  ///< kOther: dates and numbers with a point
  Kind kind = Kind::kTable;
  std::string name;              ///< its key in a table; empty in a list
  std::string text;              ///< kText: the text; kWhole: its digits; kFlag: true or false
  std::vector<TomlValue> items;  ///< the values of a list, or of a table in the order of the document
  FilePlace key;                 ///< start of its key; without a key, its own start
  FilePlace place;               ///< start of the value

  /// Returns the table's value of that name; null: none.
  [[nodiscard]] const TomlValue* find(std::string_view wanted) const;
};

/// Bounds the size of a document; larger ones are rejected unread.
inline constexpr std::size_t kMaxDocument = std::size_t{256} << 10;

/// Returns the document's table.
[[nodiscard]] tl::expected<TomlValue, FileProblem> read_toml(std::string_view text, const std::string& file);

}  // namespace ration
