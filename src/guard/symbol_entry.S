// dlsym as exported by both guards: asks symbol_route.cpp. What RTLD_NEXT means depends on the caller that libc sees.
#include "guard/routed_entry.h"

        .text
        .hidden ration_route_dlsym
        .hidden ration_next_dlsym

        ration_routed dlsym, ration_route_dlsym, ration_next_dlsym

        .section .note.GNU-stack,"",%progbits
