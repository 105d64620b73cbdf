// dlopen and dlmopen as the guard exports them. Each asks open_route.cpp for a handle. If there is none, the entry
// jumps on to libc's function, so that libc sees the real caller (its RUNPATH and its namespace count).
#include "guard/routed_entry.h"

        .text
        .hidden ration_route_dlopen
        .hidden ration_route_dlmopen
        .hidden ration_real_dlopen
        .hidden ration_real_dlmopen

        ration_routed dlopen, ration_route_dlopen, ration_real_dlopen

        .globl  dlmopen
        .type   dlmopen, %function
        .p2align 4
dlmopen:
        .cfi_startproc
#if defined(__x86_64__)
        endbr64
        movq    (%rsp), %rcx            // the caller
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        call    ration_route_dlmopen    // (namespace, file, mode, caller) -> rax handle or null, rdx namespace to go on with
        movq    %rdx, %rdi
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        testq   %rax, %rax
        je      1f
        ret
1:      jmp     *ration_real_dlmopen(%rip)
#elif defined(__aarch64__)
        hint    #34
        stp     x29, x30, [sp, #-48]!
        .cfi_def_cfa_offset 48
        .cfi_offset 29, -48
        .cfi_offset 30, -40
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        str     x2, [sp, #32]
        mov     x3, x30
        bl      ration_route_dlmopen
        mov     x16, x0
        mov     x0, x1
        ldr     x1, [sp, #24]
        ldr     x2, [sp, #32]
        ldp     x29, x30, [sp], #48
        .cfi_restore 29
        .cfi_restore 30
        .cfi_def_cfa_offset 0
        cbz     x16, 1f
        mov     x0, x16
        ret
1:      adrp    x16, ration_real_dlmopen
        ldr     x16, [x16, :lo12:ration_real_dlmopen]
        br      x16
#endif
        .cfi_endproc
        .size   dlmopen, .-dlmopen

        .section .note.GNU-stack,"",%progbits
