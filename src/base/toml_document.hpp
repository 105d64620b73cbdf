// A TOML document as a plain tree in which every key and every value has its line and column. Used by the
// configuration, the scenarios of `ration demo` and the simulator; only its source file uses the TOML library.
// Promises: any bytes may be given (fuzzed: tests/fuzz/settings_fuzz.cpp); an unreadable document is a problem with its
// place, never a crash; reading takes at most a few times the document's size of memory and stack.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace ration {

/// A line and a column (in bytes) of a file, both from 1.
struct FilePlace {
  std::size_t line = 1, column = 1;
};

/// A part of a configuration file that cannot be used; `what` and `fix` are as in Error.
struct FileProblem {
  std::string file;
  FilePlace place;
  std::string what, fix;
};

/// Returns `FILE:LINE:COLUMN`.
[[nodiscard]] std::string place_text(const FileProblem& problem);

/// A value of a document.
struct TomlValue {
  enum class Kind { kText, kWhole, kFlag, kList, kTable, kOther };  ///< kOther is a date, or a number with a point
  Kind kind = Kind::kTable;
  std::string name;              ///< its key in a table; empty in a list
  std::string text;              ///< the text of kText, the digits of kWhole, `true` or `false` of kFlag
  std::vector<TomlValue> items;  ///< the values of a list or table, in the order of the document
  FilePlace key;                 ///< start of the key; without one, start of the value
  FilePlace place;               ///< start of the value

  /// Returns the table's value of that name; null if there is none.
  [[nodiscard]] const TomlValue* find(std::string_view wanted) const;
};

/// The greatest size of a document; a larger one is rejected unread.
inline constexpr std::size_t kMaxDocument = std::size_t{256} << 10;

/// Returns the document's table.
[[nodiscard]] tl::expected<TomlValue, FileProblem> read_toml(std::string_view text, const std::string& file);

}  // namespace ration
