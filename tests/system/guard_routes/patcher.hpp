// Replaces a function in the running program as UCX does: its first bytes go elsewhere, a jump to the replacement takes
// their place (ucm/bistro of openucx/ucx, x86-64). Used by client.cpp.
// It moves what every release of UCX can move as it is; any other instruction is an error, as it is there.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace guard_routes {

#if defined(__x86_64__)

/// Length of the instruction at `code`, or 0: it is none of those that are known.
inline std::size_t movable(const unsigned char* code) {
  const auto is = [&](std::initializer_list<unsigned> bytes) {
    std::size_t at = 0;
    for (const unsigned byte : bytes)
      if (code[at++] != byte) return false;
    return true;
  };
  if ((code[0] & 0xf0U) == 0x50) return 1;                     // push or pop of an old register
  if (code[0] == 0x41 && (code[1] & 0xf0U) == 0x50) return 2;  // of a new one
  if (is({0x48, 0x89, 0xe5})) return 3;                        // mov %rsp,%rbp
  if (is({0x48, 0x81, 0xec})) return 7;                        // sub $imm32,%rsp
  if ((code[0] & 0xf8U) == 0xb8) return 5;                     // mov $imm32,%reg
  return 0;
}

/// Puts `replacement` in the place of `function`. What calls the function as it was; null: it cannot be replaced.
inline void* replace(void* function, void* replacement) {
  constexpr std::size_t kJump = 12;  // mov $replacement,%rax; jmp *%rax
  auto* code = static_cast<unsigned char*>(function);
  std::size_t moved = 0;
  while (moved < kJump) {
    const std::size_t length = movable(code + moved);
    if (length == 0) return nullptr;
    moved += length;
  }
  void* place = ::mmap(nullptr, 64, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(code) & ~(page - 1);
  if (place == MAP_FAILED ||
      ::mprotect(reinterpret_cast<void*>(start), 2 * page, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
    return nullptr;
  auto* original = static_cast<unsigned char*>(place);
  std::memcpy(original, code, moved);
  const unsigned char back[] = {0xff, 0x25, 0, 0, 0, 0};  // jmp *(%rip), to what follows
  const void* rest = code + moved;
  std::memcpy(original + moved, back, sizeof back);
  std::memcpy(original + moved + sizeof back, &rest, sizeof rest);
  unsigned char jump[kJump] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
  std::memcpy(jump + 2, &replacement, sizeof replacement);
  std::memcpy(code, jump, sizeof jump);
  return original;
}

#endif

}  // namespace guard_routes
