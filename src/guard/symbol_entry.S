// dlsym as both guards export it. It asks symbol_route.cpp. Without an answer from there, it jumps on to the next
// dlsym, so that libc sees the real caller, on which RTLD_NEXT depends.
#include "guard/routed_entry.h"

        .text
        .hidden ration_route_dlsym
        .hidden ration_next_dlsym

        ration_routed dlsym, ration_route_dlsym, ration_next_dlsym

        .section .note.GNU-stack,"",%progbits
