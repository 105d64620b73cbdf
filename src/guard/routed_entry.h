// A macro for a libc function of two arguments as a guard exports it. The function asks `route` and returns its answer;
// an answer with all bits set stands for null. If `route` has no answer (null), the function jumps on to `next`, so
// that libc sees the real caller. Used by open_entry.S and symbol_entry.S.
#pragma once

        .macro ration_routed name, route, next
        .globl  \name
        .type   \name, %function
        .p2align 4
\name:
        .cfi_startproc
#if defined(__x86_64__)
        endbr64
        movq    (%rsp), %rdx            // the caller
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    \route                  // (its two arguments, caller) -> its answer or null
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %rax, %rax
        je      1f
        cmpq    $-1, %rax
        jne     2f
        xorl    %eax, %eax
2:      ret
1:      jmp     *\next(%rip)
#elif defined(__aarch64__)
        hint    #34
        stp     x29, x30, [sp, #-32]!
        .cfi_def_cfa_offset 32
        .cfi_offset 29, -32
        .cfi_offset 30, -24
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        mov     x2, x30
        bl      \route
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_restore 29
        .cfi_restore 30
        .cfi_def_cfa_offset 0
        cbz     x16, 1f
        cmn     x16, #1
        csel    x0, xzr, x16, eq
        ret
1:      adrp    x16, \next
        ldr     x16, [x16, :lo12:\next]
        br      x16
#endif
        .cfi_endproc
        .size   \name, .-\name
        .endm
