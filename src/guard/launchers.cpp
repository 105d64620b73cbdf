#include "guard/launchers.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "book/book.hpp"
#include "guard/environment.hpp"

namespace ration::guard {
namespace {

struct Launcher {
  const char* name;
  const char* word;  ///< the argument that makes it a launcher; null if it is a launcher with any arguments
};
constexpr Launcher kLaunchers[] = {
#define RATION_LAUNCHER(name, word, reason, instead) {name, word},
#include "base/launchers.inc"
#undef RATION_LAUNCHER
};

bool has_word(char* const* words, const char* word) noexcept {
  while (words != nullptr && *words != nullptr && std::strcmp(*words, word) != 0) ++words;
  return words != nullptr && *words != nullptr;
}

}  // namespace

void note_launcher(const char* program, char* const* words) noexcept {
  if (!environment().governed || program == nullptr) return;
  const char* slash = std::strrchr(program, '/');
  const char* name = slash != nullptr ? slash + 1 : program;
  for (const Launcher& launcher : kLaunchers) {
    if (std::strcmp(launcher.name, name) != 0 || (launcher.word != nullptr && !has_word(words, launcher.word)))
      continue;
    const int saved = errno;
    book::Book book;  // a separate Book, because another thread may be opening the hooks' Book
    if ((slash == nullptr || ::access(program, X_OK) == 0) &&
        book::Book::open(environment().book, book) == book::BookStatus::kOk)
      book.denials().note_launcher(name);
    errno = saved;
    return;
  }
}

}  // namespace ration::guard
