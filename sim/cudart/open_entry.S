// The exported dlopen(). It calls ration_sim_route_dlopen() (open.cpp) and jumps to the next dlopen() if that returns
// no handle. Because it jumps, the next dlopen() still sees the program as its caller and uses the program's RUNPATH
// and namespace.
#include "guard/routed_entry.h"

        .text
        .hidden ration_sim_route_dlopen
        .hidden ration_sim_next_dlopen

        ration_routed dlopen, ration_sim_route_dlopen, ration_sim_next_dlopen

        .section .note.GNU-stack,"",%progbits
