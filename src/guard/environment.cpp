#include "guard/environment.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "book/workload_book.hpp"

namespace ration::guard {
namespace {

Environment captured;
std::atomic<bool> is_captured{false};

// Keeps a value empty that is too long to be a path: opening the book then fails, and that error is reported.
bool copy_path(const char* value, char (&out)[PATH_MAX]) noexcept {
  if (value == nullptr || *value == '\0') return false;
  const std::size_t length = std::strlen(value);
  if (length < PATH_MAX) std::memcpy(out, value, length + 1);
  return true;
}

// Runs when the library is loaded. If a library that was initialised earlier has called in already, this is the second
// run and writes the same values.
[[gnu::constructor]] void capture() noexcept {
  if (is_captured.load(std::memory_order_acquire)) return;
  captured.governed = copy_path(book::workload_book(), captured.book);
  copy_path(::getenv("RATION_DRIVER_PATH"), captured.driver_path);
  const char* folders = ::getenv("LD_LIBRARY_PATH");
  char* copy = folders != nullptr && *folders != '\0' ? ::strdup(folders) : nullptr;
  captured.library_path = copy != nullptr ? copy : "";
  is_captured.store(true, std::memory_order_release);
}

}  // namespace

const Environment& environment() noexcept {
  if (!is_captured.load(std::memory_order_acquire)) [[unlikely]]
    capture();
  return captured;
}

}  // namespace ration::guard

/// Marks this library as the guard: code that finds a libcuda.so.1 in its process tells it from a driver by this
/// symbol.
extern "C" [[gnu::visibility("default")]] const char ration_shim[] = "ration";
