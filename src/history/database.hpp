// The part of SQLite that the history needs: one connection, statements that clean up after themselves, and the first
// failure. Used in this folder only. Promises: nothing throws; after a failure every further step does nothing, so that
// a caller may run a whole transaction and check only at its end whether it succeeded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace ration::history {

class Database;

/// A prepared statement. Columns count from 0; parameters are bound in order.
class Statement {
 public:
  Statement(Database& database, std::string_view text);

  /// Resets the statement and binds new values: integers, texts, and optionals (an empty one is NULL).
  template <typename... Values>
  Statement& with(const Values&... values) {
    restart();
    int index = 0;
    (bind(++index, values), ...);
    return *this;
  }

  /// Binds texts to the parameters from `first` on. Must be called after with().
  void bind_further(int first, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) bind(first++, text);
  }

  /// Steps to the next row. Returns false if there is none.
  [[nodiscard]] bool row();
  /// Runs the statement to its end.
  void done() {
    while (row()) {
    }
  }

  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] double real(int column) const;
  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] std::optional<std::int64_t> maybe_integer(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept;
  };
  void restart();
  void bind(int index, std::int64_t value);
  void bind(int index, std::string_view value);
  void bind(int index, const std::string& value) { bind(index, std::string_view(value)); }
  void bind(int index, const char* value) { bind(index, std::string_view(value)); }
  void bind(int index, int value) { bind(index, std::int64_t{value}); }
  template <typename T>
  void bind(int index, const std::optional<T>& value) {
    if (value) bind(index, *value);  // an unbound parameter is NULL
  }

  Database* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
};

class Database {
 public:
  enum class Access { kWrite, kRead };

  /// Opens the file. Fails with E1912 if that is not possible. Opening succeeds even for a file that is no database;
  /// then the first statement fails.
  [[nodiscard]] static Result<Database> open(const std::string& path, Access access);

  /// Runs one or more statements without parameters.
  void run(const char* text);

  /// Returns the first failure since the last call of outcome(), or success.
  [[nodiscard]] Result<void> outcome();

  [[nodiscard]] bool failed() const noexcept { return failure_.has_value(); }
  /// Returns true if the file has proved to be inconsistent, or to be no database.
  [[nodiscard]] bool damaged() const noexcept { return damaged_; }

 private:
  friend class Statement;
  struct Close {
    void operator()(sqlite3* handle) const noexcept;
  };
  void fail_with(int code);

  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
  std::optional<Error> failure_;
  bool damaged_ = false;
};

}  // namespace ration::history
