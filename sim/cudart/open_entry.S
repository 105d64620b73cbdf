// The exported dlopen(). It calls open.cpp and, unless that returns a handle, jumps to the next dlopen(), which still
// sees the caller, whose RUNPATH and namespace count.
#include "guard/routed_entry.h"

        .text
        .hidden ration_sim_route_dlopen
        .hidden ration_sim_next_dlopen

        ration_routed dlopen, ration_sim_route_dlopen, ration_sim_next_dlopen

        .section .note.GNU-stack,"",%progbits
