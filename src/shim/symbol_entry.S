// dlsym as exported by both shims: ask symbol_route.cpp, and unless it gave an address go on to the next dlsym by a jump, so
// that libc still sees the real caller (what RTLD_NEXT means depends on it).

        .text
        .hidden ration_route_dlsym
        .hidden ration_next_dlsym

        .globl  dlsym
        .type   dlsym, %function
        .p2align 4
dlsym:
        .cfi_startproc
#if defined(__x86_64__)
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    ration_route_dlsym      // (handle, name) -> address or null
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %rax, %rax
        je      1f
        ret
1:      jmp     *ration_next_dlsym(%rip)
#elif defined(__aarch64__)
        hint    #34
        stp     x29, x30, [sp, #-32]!
        .cfi_def_cfa_offset 32
        .cfi_offset 29, -32
        .cfi_offset 30, -24
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        bl      ration_route_dlsym
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_restore 29
        .cfi_restore 30
        .cfi_def_cfa_offset 0
        cbz     x16, 1f
        mov     x0, x16
        ret
1:      adrp    x16, ration_next_dlsym
        ldr     x16, [x16, :lo12:ration_next_dlsym]
        br      x16
#endif
        .cfi_endproc
        .size   dlsym, .-dlsym

        .section .note.GNU-stack,"",%progbits
