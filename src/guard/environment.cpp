#include "guard/environment.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "book/workload_book.hpp"

namespace ration::guard {
namespace {

Environment captured;
std::atomic<bool> is_captured{false};

// Copies a path if it is set. A value that is too long becomes empty, so that opening the book fails and reports the
// error.
bool copy_path(const char* value, char (&out)[PATH_MAX]) noexcept {
  if (value == nullptr || *value == '\0') return false;
  const std::size_t length = std::strlen(value);
  if (length < PATH_MAX) std::memcpy(out, value, length + 1);
  return true;
}

// Captures the environment when the library is loaded, or earlier if a library that is initialised before this one
// calls the guard.
[[gnu::constructor]] void capture() noexcept {
  if (is_captured.load(std::memory_order_acquire)) return;
  captured.governed = copy_path(book::workload_book(), captured.book);
  copy_path(::getenv("RATION_DRIVER_PATH"), captured.driver_path);
  copy_path(::getenv("RATION_RECORD"), captured.record);
  if (const char* sites = ::getenv("RATION_RECORD_SITES"); sites != nullptr)
    captured.record_sites = std::strcmp(sites, "python") == 0 ? RecordedSites::kPython : RecordedSites::kNative;
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

void set_record_folder(const char* folder) noexcept {
  captured.record[0] = '\0';
  copy_path(folder, captured.record);
}

}  // namespace ration::guard

/// The mark of the guard. A library libcuda.so.1 that has this symbol is the guard; a driver does not have it.
extern "C" [[gnu::visibility("default")]] const char ration_shim[] = "ration";
