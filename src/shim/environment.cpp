#include "shim/environment.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "ledger/workload_book.hpp"

namespace ration::shim {
namespace {

Environment captured;
std::atomic<bool> is_captured{false};

// A value too long to be a path is kept empty: the book then cannot be opened, which is said where it is opened.
bool copy_path(const char* value, char (&out)[PATH_MAX]) noexcept {
  if (value == nullptr || *value == '\0') return false;
  const std::size_t length = std::strlen(value);
  if (length < PATH_MAX) std::memcpy(out, value, length + 1);
  return true;
}

// Runs when the library is loaded. A library initialised before us may have called in already: then this is the second
// time, and writes the same.
[[gnu::constructor]] void capture() noexcept {
  if (is_captured.load(std::memory_order_acquire)) return;
  captured.governed = copy_path(ledger::workload_book(), captured.book);
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

}  // namespace ration::shim

/// By this name whoever finds a libcuda.so.1 in its process knows the shim from a driver.
extern "C" [[gnu::visibility("default")]] const char ration_shim[] = "ration";
