// Entries for unlisted functions (unlisted.cpp). They work like the trampolines of the table, but have no names.
#include "guard/unlisted_count.h"

        .text
        .globl  ration_unlisted_entries
        .hidden ration_unlisted_entries
        .hidden ration_unlisted_slots
        .hidden ration_resolve_and_go
        .type   ration_unlisted_entries, %function
        .p2align 4
ration_unlisted_entries:
        .cfi_startproc
        .set    number, 0
        .rept   RATION_UNLISTED_COUNT
        .p2align 4
#if defined(__x86_64__)
        jmp     *ration_unlisted_slots+8*number(%rip)
#elif defined(__aarch64__)
        adrp    x16, ration_unlisted_slots+8*number
        ldr     x16, [x16, :lo12:ration_unlisted_slots+8*number]
        br      x16
#endif
        .set    number, number+1
        .endr
        .cfi_endproc
        .size   ration_unlisted_entries, .-ration_unlisted_entries

        .p2align 4
.Lfirst_calls:
        .cfi_startproc
        .set    number, 0
        .rept   RATION_UNLISTED_COUNT
        .p2align 4
#if defined(__x86_64__)
        movl    $(RATION_UNLISTED_FIRST+number), %r11d
        jmp     ration_resolve_and_go
#elif defined(__aarch64__)
        mov     w17, #(RATION_UNLISTED_FIRST+number)
        b       ration_resolve_and_go
#endif
        .set    number, number+1
        .endr
        .cfi_endproc

        .section .data.ration_unlisted,"aw",%progbits
        .globl  ration_unlisted_slots
        .p2align 3
ration_unlisted_slots:
        .set    number, 0
        .rept   RATION_UNLISTED_COUNT
        .quad   .Lfirst_calls+16*number
        .set    number, number+1
        .endr

        .section .note.GNU-stack,"",%progbits
