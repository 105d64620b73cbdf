// dlopen as the simulator exports it: asks open.cpp, and unless that gave a handle jumps to the next dlopen, which still
// sees the caller (its RUNPATH and its namespace count).
#include "guard/routed_entry.h"

        .text
        .hidden ration_sim_route_dlopen
        .hidden ration_sim_next_dlopen

        ration_routed dlopen, ration_sim_route_dlopen, ration_sim_next_dlopen

        .section .note.GNU-stack,"",%progbits
