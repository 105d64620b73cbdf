#include "cli/session/other_versions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/command.hpp"
#include "book/layout.hpp"

namespace ration::cli {
namespace {

Error error_about(const book::ForeignBook& book) {
  const std::string formats =
      fmt::format("books of format {}; this ration has format {}", book.format, book::kBookVersion);
  if (!book.live)
    return {
        "E1450",
        fmt::format("{} was written by another version of ration ({}); its workload has ended.", book.path, formats),
        fmt::format("rm {}", shell_word(book.path)), 1};
  // The kernel does not tell which program a process of another user or another container runs.
  const bool known = !book.program.empty();
  return {
      "E1450",
      fmt::format("workload '{}' was started by another version of ration ({}pid {}; {}): the limit is enforced, but "
                  "only that version can show or change the workload.",
                  book.name, known ? book.program + ", " : "", book.creator.pid, formats),
      known ? fmt::format("{} ps", shell_word(book.program)) : "Use the version of ration that started it.", 1};
}

}  // namespace

std::vector<Error> of_other_versions(const book::Store& store) {
  auto books = store.of_other_versions();
  std::stable_partition(books.begin(), books.end(), [](const auto& book) { return book.live; });
  std::vector<Error> errors;
  for (const auto& book : books) errors.push_back(error_about(book));
  return errors;
}

std::vector<Error> running_of_other_versions(const book::Store& store) {
  std::vector<Error> errors;
  for (const auto& book : store.of_other_versions())
    if (book.live) errors.push_back(error_about(book));
  return errors;
}

Result<void> is_of_this_version(const book::Store& store, const std::string& name) {
  const auto books = store.list();
  if (std::any_of(books.begin(), books.end(),
                  [&](const auto& book) { return book.live && book.contents.name == name; }))
    return {};
  for (const auto& book : store.of_other_versions())
    if (book.live && book.name == name) return tl::unexpected(error_about(book));
  return {};
}

}  // namespace ration::cli
