#include "runtime/own_workload.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <vector>

#include "base/command.hpp"
#include "base/file.hpp"
#include "base/strings.hpp"
#include "base/system_calls.hpp"
#include "base/units.hpp"
#include "book/layout.hpp"
#include "book/workload_book.hpp"
#include "ration/runtime.hpp"
#include "runtime/physical.hpp"

namespace ration::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDriver = "libcuda.so.1";
constexpr const char* kManagement = "libnvidia-ml.so.1";

std::string environment_text(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Returns the folder of this library.
fs::path own_folder() {
  Dl_info info{};
  std::error_code error;
  if (::dladdr(reinterpret_cast<const void*>(&own_book), &info) == 0) return {};
  return fs::canonical(info.dli_fname, error).parent_path();
}

/// Returns the path of a file that is installed with this library. An installation has lib/libration.so.1,
/// lib/ration/shim and bin/ration below one folder; in Debian, the library is usr/lib/TRIPLET/libration.so.1. In the
/// build, the guard lies beside lib.
fs::path companion(std::initializer_list<const char*> places) {
  const fs::path folder = own_folder();
  std::error_code error;
  for (const char* place : places)
    if (fs::exists(folder / place, error)) return (folder / place).lexically_normal();
  throw UnknownError(
      fmt::format("{} has no other part of ration: a limit from inside needs the whole package.", folder.string()));
}

enum class Driver { kNone, kGuarded, kBare };

/// Returns which library this process has loaded under the driver's name.
Driver loaded_driver() {
  void* library = ::dlopen(kDriver, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return Driver::kNone;
  const bool guarded = ::dlsym(library, "ration_shim") != nullptr;
  ::dlclose(library);
  return guarded ? Driver::kGuarded : Driver::kBare;
}

void load_guard() {
  const fs::path folder = companion({"ration/shim", "../ration/shim", "../shim"});
  for (const char* name : {kDriver, kManagement}) {
    if (::dlopen((folder / name).c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
      throw UnknownError(fmt::format("the guard cannot be loaded: {}", ::dlerror()));
  }
}

std::string contents(const FileDescriptor& file) {
  std::string text;
  char piece[4096];
  ::lseek(file.get(), 0, SEEK_SET);
  for (ssize_t length = 0; (length = ::read(file.get(), piece, sizeof piece)) > 0;)
    text.append(piece, static_cast<std::size_t>(length));
  return text;
}

/// Runs `ration activate` and returns its output. Throws UnknownError with the error text of that command.
std::string ask_for_book() {
  const std::string program = companion({"../bin/ration", "../../bin/ration"}).string();
  const FileDescriptor output{memory_file("ration")}, problems{memory_file("ration")};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, problems.get(), STDERR_FILENO);
  char* words[] = {const_cast<char*>(program.c_str()), const_cast<char*>("activate"), nullptr};
  pid_t child = 0;
  const int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr, words, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw UnknownError(fmt::format("{} cannot be started: {}", program, std::strerror(error)));
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  std::string variables = contents(output);  // the output decides: a program that ignores SIGCHLD gets no status
  if (variables.find("RATION_BOOK=") != std::string::npos) return variables;
  std::string complaint = contents(problems);
  while (!complaint.empty() && complaint.back() == '\n') complaint.pop_back();
  throw UnknownError(complaint.empty() ? "ration activate printed neither a book nor an error." : complaint);
}

/// Sets the variables that `ration activate` prints.
void take_book() {
  const std::string variables = ask_for_book();
  for (const std::string_view entry : split(variables, '\0'))
    if (const auto parts = split_once(entry, '='))
      ::setenv(std::string(parts->first).c_str(), std::string(parts->second).c_str(), 1);
}

pid_t activated_by = 0;  // the process that called activate(); only this process marks the book as ended

/// Enters the exit status in the book, as `ration run` does for its program; the workload that activate() made has no
/// other process to do so. Removes an unused book.
void tell_end(int status, void*) {
  if (::getpid() != activated_by) return;  // a child of fork
  const std::string path = environment_text("RATION_BOOK");
  book::BookSnapshot left;
  if (book::Book::read(path.c_str(), left) != book::BookStatus::kOk) return;
  const bool unused = left.processes.empty() && left.denial_count == 0 &&
                      std::all_of(left.accounts.begin(), left.accounts.end(),
                                  [](const auto& account) { return account.peak == Bytes{0}; });
  if (unused) {
    ::unlink(path.c_str());
  } else if (book::Book book; book::Book::open(path.c_str(), book) == book::BookStatus::kOk) {
    book.mark_ended(status);
  }
}

std::mutex activating;

}  // namespace

void activate() {
  const std::lock_guard alone(activating);
  const bool has_book = book::workload_book() != nullptr;
  switch (loaded_driver()) {
    case Driver::kGuarded:
      if (has_book) return;
      throw RuntimeError("the guard was loaded without a book, so it limits nothing.");
    case Driver::kBare:
      throw RuntimeError(
          "the GPU's driver is loaded already in this process, so a limit comes too late. Activate "
          "ration before importing or starting anything that uses the GPU.");
    case Driver::kNone:
      break;
  }
  if (!has_book) {
    take_book();
    activated_by = ::getpid();
    ::on_exit(tell_end, nullptr);
  }
  load_guard();
}

void prepare_restart() {
  const std::lock_guard alone(activating);
  if (loaded_driver() != Driver::kGuarded && book::workload_book() == nullptr) take_book();
}

book::Book* own_book() {
  static std::mutex opening;
  static book::Book* book = nullptr;  // never closed, since atexit handlers of the program may use it
  static std::string opened;
  const std::lock_guard alone(opening);
  const char* path = book::workload_book();
  if (path == nullptr) return nullptr;
  if (book != nullptr && path == opened) return book;
  auto* found = new book::Book;
  if (book::Book::open(path, *found) != book::BookStatus::kOk) {
    delete found;
    return nullptr;
  }
  opened = path;
  return book = found;
}

std::optional<std::uint32_t> account_of_gpu(const book::Book& book, std::size_t number) {
  const auto known = [&](std::size_t account) {
    return account < book.account_count() ? std::optional(static_cast<std::uint32_t>(account)) : std::nullopt;
  };
  const std::string visible = environment_text("CUDA_VISIBLE_DEVICES");
  if (visible.empty()) return known(number);
  const auto entries = split(visible, ',');
  if (number >= entries.size()) return std::nullopt;
  const std::string entry(entries[number]);
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  if (error == std::errc{} && end == entry.data() + entry.size()) return known(index);
  for (std::uint32_t account = 0; account < book.account_count(); ++account)
    if (is_uuid(entry, book.account(account).device().uuid)) return account;
  return std::nullopt;
}

Bytes whole_of(const book::Book& book, std::uint32_t account) {
  const book::Account own = book.account(account);
  return std::min(own.device().total, own.granted());
}

namespace {

/// Returns the sentence about a limit above `whole`, which is above the GPU's size or what the program was given.
std::string too_large(const book::Book& book, std::uint32_t account, Bytes limit, Bytes whole) {
  if (whole == book.account(account).device().total) {
    std::size_t number = 0;
    while (number < book.account_count() && account_of_gpu(book, number) != account) ++number;
    return fmt::format("A limit of {} is more than GPU {} has ({}).", format_size(limit), number, format_size(whole));
  }
  const std::string_view typed = book.command();
  const bool is_whole = !typed.empty() && typed.size() + 1 < sizeof(book::BookHeader::command);
  const std::string size = exact_size(limit);
  return fmt::format(
      "A limit of {} is more than this program was given ({}). Start it with: {} {}   (while it runs: {})",
      format_size(limit), format_size(whole), command({"run", "--limit", size, "--"}),
      is_whole ? quoted_words(typed) : "PROGRAM", command({"set", std::string(book.name()), "--limit", size}));
}

}  // namespace

void set_own_limit(book::Book& book, std::uint32_t account, Bytes limit) {
  if (limit == kUnlimited) return book.account(account).set_own_limit(limit);
  const Bytes whole = whole_of(book, account);
  if (limit < kGranule)
    throw ValueError(fmt::format("A limit of {} leaves nothing: memory comes in pieces of 2 MiB.", format_size(limit)));
  if (limit > whole) throw ValueError(too_large(book, account, limit, whole));
  book.account(account).set_own_limit(round_down(limit, kGranule));
}

}  // namespace ration::runtime
