// The exported entries of patched_names.inc. Each entry consists of first instructions that can be moved
// (movable_start.h) and a jump to the hook.
#include "guard/movable_start.h"

#if defined(__x86_64__)
#define RATION_JUMP jmp
#else
#define RATION_JUMP b
#endif

#define RATION_PATCHED(name)                                 \
        .hidden ration_hook_##name;                          \
        .globl  name;                                        \
        .type   name, %function;                             \
        .p2align 4;                                          \
name:   .cfi_startproc;                                      \
        RATION_MOVABLE_START;                                \
        RATION_JUMP ration_hook_##name;                      \
        .cfi_endproc;                                        \
        .size   name, .-name;

        .text
#include "guard/patched_names.inc"

        .section .note.GNU-stack,"",%progbits
