// Numbers that unlisted_entries.S and unlisted.cpp share.
#pragma once

#define RATION_UNLISTED_COUNT 64       // entries for functions beyond the table in one process
#define RATION_UNLISTED_FIRST 0x8000   // numbers from here on are not slots of the table in ration_resolve()
#define RATION_UNLISTED_STRIDE 16      // bytes from one entry to the next
