#include "guard/kept_environment.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "guard/environment.hpp"

namespace ration::guard {
namespace {

/// A variable that the children of a governed process must have.
struct Kept {
  const char* name;
  const char* first;   ///< the entry with which a list must begin; null if the variable is no list
  const char* second;  ///< the list's next entry, or null
  const char* value;   ///< the value of a variable that is no list; null if it must be absent
};

constexpr std::size_t kKept = 9;
struct Wanted {
  Kept kept[kKept];
  std::size_t count;
  char driver[PATH_MAX], nvml[PATH_MAX], audit[PATH_MAX];
};
Wanted wanted;
std::atomic<bool> is_wanted{false};

constexpr const char* kFreed = "RATION_ALLOW_UNGOVERNED";

const char* copy_of_variable(const char* name) noexcept {
  const char* value = ::getenv(name);
  return value != nullptr ? ::strdup(value) : nullptr;
}

/// Returns true if `list` contains `entry`. The dynamic linker separates entries by spaces and colons.
bool has_entry(const char* list, const char* entry) noexcept {
  const std::size_t length = std::strlen(entry);
  for (const char* at = list; at != nullptr && *at != '\0';) {
    const std::size_t end = std::strcspn(at, ": ");
    if (end == length && std::strncmp(at, entry, length) == 0) return true;
    at += end + (at[end] != '\0' ? 1 : 0);
  }
  return false;
}

/// Writes the path of `name` in this library's folder. Returns false if that is not an absolute path that fits.
bool beside_this(const char* name, char (&out)[PATH_MAX]) noexcept {
  Dl_info info;
  if (::dladdr(reinterpret_cast<void*>(&beside_this), &info) == 0 || info.dli_fname == nullptr) return false;
  const char* slash = std::strrchr(info.dli_fname, '/');
  if (slash == nullptr || info.dli_fname[0] != '/') return false;
  const std::size_t folder = static_cast<std::size_t>(slash - info.dli_fname) + 1;
  if (folder + std::strlen(name) >= sizeof out) return false;
  std::memcpy(out, info.dli_fname, folder);
  std::strcpy(out + folder, name);
  return true;
}

// Remembers the variables when the library is loaded, so that a program may empty its environment later.
[[gnu::constructor]] void remember() noexcept {
  if (is_wanted.load(std::memory_order_acquire) || !environment().governed || ::getenv(kFreed) != nullptr) return;
  const char* preload = ::getenv("LD_PRELOAD");
  if (!beside_this("libcuda.so.1", wanted.driver) || !beside_this("libnvidia-ml.so.1", wanted.nvml) ||
      !beside_this("libration-audit.so", wanted.audit) || !has_entry(preload, wanted.driver))
    return;  // the program put itself under a limit: the guard was not preloaded, so it is not in front of libc
  const auto add = [](const Kept& kept) { wanted.kept[wanted.count++] = kept; };
  add({"LD_PRELOAD", wanted.driver, wanted.nvml, nullptr});
  if (has_entry(::getenv("LD_AUDIT"), wanted.audit)) add({"LD_AUDIT", wanted.audit, nullptr, nullptr});
  for (const char* name : {"RATION_BOOK", "RATION_DRIVER_PATH", "RATION_SIM", "RATION_SIM_DIR", "RATION_SIM_DRIVER",
                           "RATION_RECORD", "RATION_RECORD_SITES"}) {
    if (const char* value = copy_of_variable(name); value != nullptr) add({name, nullptr, nullptr, value});
  }
  add({kFreed, nullptr, nullptr, nullptr});
  is_wanted.store(true, std::memory_order_release);
}

/// Returns the kept variable that `entry` ("NAME=value") sets, and stores its value. Returns null if it sets none.
const Kept* kept_of(const char* entry, const char** value) noexcept {
  if (entry[0] != 'L' && entry[0] != 'R') return nullptr;
  for (std::size_t i = 0; i < wanted.count; ++i) {
    const std::size_t length = std::strlen(wanted.kept[i].name);
    if (std::strncmp(entry, wanted.kept[i].name, length) != 0 || entry[length] != '=') continue;
    *value = entry + length + 1;
    return &wanted.kept[i];
  }
  return nullptr;
}

/// If `list` begins with `entry`, returns the position after that entry and its separator; otherwise returns null.
const char* behind(const char* list, const char* entry) noexcept {
  const std::size_t length = std::strlen(entry);
  if (std::strncmp(list, entry, length) != 0) return nullptr;
  if (list[length] == '\0') return list + length;
  return list[length] == ':' || list[length] == ' ' ? list + length + 1 : nullptr;
}

bool is_good(const Kept& kept, const char* value) noexcept {
  if (kept.first == nullptr) return kept.value != nullptr && std::strcmp(value, kept.value) == 0;
  const char* rest = behind(value, kept.first);
  return rest != nullptr && (kept.second == nullptr || behind(rest, kept.second) != nullptr);
}

char* append(char* to, const char* text, std::size_t length) noexcept {
  std::memcpy(to, text, length);
  return to + length;
}

/// Writes "NAME=value" with the required entries first and the list's other entries after them. Returns the end.
char* write_entry(char* to, const Kept& kept, const char* given) noexcept {
  to = append(to, kept.name, std::strlen(kept.name));
  *to++ = '=';
  if (kept.first == nullptr) return append(to, kept.value, std::strlen(kept.value) + 1);
  to = append(to, kept.first, std::strlen(kept.first));
  if (kept.second != nullptr) {
    *to++ = ':';
    to = append(to, kept.second, std::strlen(kept.second));
  }
  for (const char* at = given; at != nullptr && *at != '\0';) {
    const std::size_t length = std::strcspn(at, ": ");
    const auto is = [&](const char* own) {
      return own != nullptr && std::strlen(own) == length && std::strncmp(at, own, length) == 0;
    };
    if (length != 0 && !is(kept.first) && !is(kept.second)) {
      *to++ = ':';
      to = append(to, at, length);
    }
    at += length + (at[length] != '\0' ? 1 : 0);
  }
  *to++ = '\0';
  return to;
}

std::size_t entry_room(const Kept& kept, const char* given) noexcept {
  std::size_t room = std::strlen(kept.name) + 4;
  for (const char* text : {kept.first, kept.second, kept.value, given}) {
    if (text != nullptr) room += std::strlen(text) + 1;
  }
  return room;
}

bool has_to_be_there(const Kept& kept) noexcept { return kept.first != nullptr || kept.value != nullptr; }

/// The kept variables in an environment. The last entry of each name counts, because the linker uses that one.
struct Found {
  const char* value[kKept] = {};
  std::size_t entries = 0;  ///< entries of any name
  bool is_good = true;
};

Found look_through(char* const* given) noexcept {
  Found found;
  for (; given != nullptr && given[found.entries] != nullptr; ++found.entries) {
    const char* value = nullptr;
    const Kept* kept = kept_of(given[found.entries], &value);
    if (kept == nullptr) continue;
    const char*& place = found.value[kept - wanted.kept];
    if (place != nullptr || !is_good(*kept, value)) found.is_good = false;
    place = value;
  }
  for (std::size_t i = 0; i < wanted.count; ++i) {
    if (found.value[i] == nullptr && has_to_be_there(wanted.kept[i])) found.is_good = false;
  }
  return found;
}

}  // namespace

std::size_t room_for_guard(char* const* given) noexcept {
  if (!is_wanted.load(std::memory_order_acquire)) return 0;
  const Found found = look_through(given);
  if (found.is_good) return 0;
  std::size_t room = (found.entries + wanted.count + 1) * sizeof(char*);
  for (std::size_t i = 0; i < wanted.count; ++i) room += entry_room(wanted.kept[i], found.value[i]);
  return room;
}

char** with_guard(char* const* given, void* room) noexcept {
  const Found found = look_through(given);
  char** out = static_cast<char**>(room);
  char** next = out;
  for (std::size_t i = 0; i < found.entries; ++i) {
    const char* value = nullptr;
    if (kept_of(given[i], &value) == nullptr) *next++ = given[i];
  }
  char* text = reinterpret_cast<char*>(out + found.entries + wanted.count + 1);
  for (std::size_t i = 0; i < wanted.count; ++i) {
    if (!has_to_be_there(wanted.kept[i])) continue;
    *next++ = text;
    text = write_entry(text, wanted.kept[i], found.value[i]);
  }
  *next = nullptr;
  return out;
}

void put_back_here() noexcept {
  const std::size_t size = room_for_guard(environ);
  void* room = size != 0 ? std::malloc(size) : nullptr;
  if (room == nullptr) return;
  for (char** entry = with_guard(environ, room); *entry != nullptr; ++entry) {
    const char* value = nullptr;
    const Kept* kept = kept_of(*entry, &value);
    if (kept == nullptr) continue;
    ::unsetenv(kept->name);  // done for every entry of that name, because setenv() would replace the first one only
    ::setenv(kept->name, value, 1);
  }
  ::unsetenv(kFreed);
  std::free(room);
}

}  // namespace ration::guard
