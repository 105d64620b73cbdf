#include "history/database.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

namespace ration::history {

void Statement::Finalize::operator()(sqlite3_stmt* statement) const noexcept { ::sqlite3_finalize(statement); }
void Database::Close::operator()(sqlite3* handle) const noexcept { ::sqlite3_close_v2(handle); }

Statement::Statement(Database& database, std::string_view text) : database_(&database) {
  if (database.failed()) return;
  sqlite3_stmt* handle = nullptr;
  const int code =
      ::sqlite3_prepare_v2(database.handle_.get(), text.data(), static_cast<int>(text.size()), &handle, nullptr);
  handle_.reset(handle);
  if (code != SQLITE_OK) database.fail_with(code);
}

void Statement::restart() {
  if (!handle_) return;
  ::sqlite3_reset(handle_.get());
  ::sqlite3_clear_bindings(handle_.get());
}

void Statement::bind(int index, std::int64_t value) {
  if (handle_) ::sqlite3_bind_int64(handle_.get(), index, value);
}

void Statement::bind(int index, std::string_view value) {
  if (handle_)
    ::sqlite3_bind_text(handle_.get(), index, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
}

bool Statement::row() {
  if (!handle_ || database_->failed()) return false;
  const int code = ::sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_->fail_with(code);
  ::sqlite3_reset(handle_.get());
  return false;
}

std::int64_t Statement::integer(int column) const { return ::sqlite3_column_int64(handle_.get(), column); }
double Statement::real(int column) const { return ::sqlite3_column_double(handle_.get(), column); }

std::string Statement::text(int column) const {
  const auto* letters = reinterpret_cast<const char*>(::sqlite3_column_text(handle_.get(), column));
  if (letters == nullptr) return {};
  return {letters, static_cast<std::size_t>(::sqlite3_column_bytes(handle_.get(), column))};
}

std::optional<std::int64_t> Statement::maybe_integer(int column) const {
  if (::sqlite3_column_type(handle_.get(), column) == SQLITE_NULL) return std::nullopt;
  return integer(column);
}

Result<Database> Database::open(const std::string& path, Access access) {
  Database database;
  database.path_ = path;
  sqlite3* handle = nullptr;
  const int flags = access == Access::kWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  const int code = ::sqlite3_open_v2(path.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  database.handle_.reset(handle);
  if (code != SQLITE_OK) {
    return fail("E1912", fmt::format("the history at {} cannot be opened: {}.", path, ::sqlite3_errstr(code)),
                "Give the daemon a folder of its own that it may write to.", 1);
  }
  // In write-ahead mode a reader never waits, but a checkpoint may wait for a moment.
  ::sqlite3_busy_timeout(handle, 5000);
  return database;
}

void Database::run(const char* text) {
  if (failed()) return;
  if (const int code = ::sqlite3_exec(handle_.get(), text, nullptr, nullptr, nullptr); code != SQLITE_OK)
    fail_with(code);
}

void Database::fail_with(int code) {
  if (failure_) return;
  const int reason = code & 0xff;  // the main code, without the extended part
  damaged_ = damaged_ || reason == SQLITE_CORRUPT || reason == SQLITE_NOTADB;
  failure_ = Error{damaged_ ? "E1919" : "E1912",
                   fmt::format("the history at {} {}: {}.", path_, damaged_ ? "is damaged" : "cannot be used",
                               ::sqlite3_errmsg(handle_.get())),
                   damaged_ ? "It is set aside and a new one begun at the daemon's next write."
                            : "Free some space there, or look at the file's owner and rights."};
}

Result<void> Database::outcome() {
  if (!failure_) return {};
  Error error = *failure_;
  failure_.reset();
  return tl::unexpected(std::move(error));
}

}  // namespace ration::history
