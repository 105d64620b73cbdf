// The first instructions of the exported entries that are written in assembler. Used by trampoline.hpp and
// patched_entries.S.
//
// UCX, in MPI programs, replaces the driver's functions that allocate and free: it moves their first bytes (12 on
// x86-64, 16 on 64-bit ARM) elsewhere and writes a jump in their place. UCX can move few instructions (ucm/bistro;
// openucx/ucx #7195, #10624): on x86-64 `push`, `mov %rsp,%rbp`, `sub $imm32,%rsp`, `mov $imm32,%reg`, but neither
// endbr64 nor a jump through memory. If UCX cannot move one of the functions, it gives up the whole installation. So
// these bytes are instructions without an effect, which every version of UCX can move.
#pragma once

#if defined(__x86_64__)
#define RATION_MOVABLE_START /* sub $0,%rsp, long, twice */ .byte 0x48, 0x81, 0xec, 0, 0, 0, 0, 0x48, 0x81, 0xec, 0, 0, 0, 0
#else
#define RATION_MOVABLE_START mov x0, x0; mov x0, x0; mov x0, x0; mov x0, x0
#endif
