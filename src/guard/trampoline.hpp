// The assembler of one exported function that is not hooked: a jump through its slot, and the stub to which the slot
// leads until the real function has been found. It is expanded once for each name by trampolines_*.cpp. Promises:
// nothing is added to the stack and no argument register changes, so every signature passes unharmed. Symbols are weak,
// so that a hook of the same name, linked in the same library, replaces them.
#pragma once

#include "guard/movable_start.h"

#define RATION_TEXT(...) RATION_TEXT_(__VA_ARGS__)
#define RATION_TEXT_(...) #__VA_ARGS__

#if defined(__x86_64__)
#define RATION_TRAMPOLINE_CODE(index, name) "jmp *ration_slots+8*" index "(%rip)\n"
#define RATION_LAZY_CODE(index) \
  "movl $" index                \
  ", %r11d\n"                   \
  "jmp ration_resolve_and_go\n"
#elif defined(__aarch64__)
#define RATION_TRAMPOLINE_CODE(index, name)    \
  "adrp x16, ration_slots+8*" index            \
  "\n"                                         \
  "ldr x16, [x16, :lo12:ration_slots+8*" index \
  "]\n"                                        \
  "br x16\n"
#define RATION_LAZY_CODE(index) \
  "hint #34\n"                  \
  "mov w17, #" index            \
  "\n"                          \
  "b ration_resolve_and_go\n"
#else
#error "ration runs on x86-64 and on 64-bit ARM"
#endif

/// Defines `name`, its slot, and its places in the lists of the guard's entries and of the trampolines. Must be
/// expanded in the order of `index`.
#define RATION_TRAMPOLINE(index, name) \
  __asm__(".text\n.p2align 4\n.weak " name "\n.type " name ", %function\n"    \
          name ":\n.Lration_trampoline_" index ":\n.cfi_startproc\n" RATION_TEXT(RATION_MOVABLE_START) "\n" \
          RATION_TRAMPOLINE_CODE(index, name) \
          ".cfi_endproc\n.size " name ", .-" name "\n"                        \
          ".section .text.ration_lazy,\"ax\",%progbits\n.p2align 2\n"         \
          ".Lration_lazy_" index ":\n.cfi_startproc\n" RATION_LAZY_CODE(index) ".cfi_endproc\n" \
          ".section .data.ration_slots,\"aw\",%progbits\n.quad .Lration_lazy_" index "\n" \
          ".section .data.rel.ro.ration_own,\"aw\",%progbits\n.quad " name "\n"         \
          ".section .data.rel.ro.ration_trampolines,\"aw\",%progbits\n.quad .Lration_trampoline_" index "\n.text\n");

/// Opens the three tables; must precede the first RATION_TRAMPOLINE.
#define RATION_TRAMPOLINE_TABLES                                                     \
  __asm__(                                                                           \
      ".section .data.ration_slots,\"aw\",%progbits\n.p2align 6\n"                   \
      ".globl ration_slots\n.hidden ration_slots\nration_slots:\n"                   \
      ".section .data.rel.ro.ration_own,\"aw\",%progbits\n.p2align 3\n"              \
      ".globl ration_own_entries\n.hidden ration_own_entries\nration_own_entries:\n" \
      ".section .data.rel.ro.ration_trampolines,\"aw\",%progbits\n.p2align 3\n"      \
      ".globl ration_trampolines\n.hidden ration_trampolines\nration_trampolines:\n.text\n");
