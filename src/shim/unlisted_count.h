// Numbers that unlisted_entries.S and unlisted.cpp share.
#pragma once

#define RATION_UNLISTED_COUNT 64       // functions beyond the table that one process is given entries for
#define RATION_UNLISTED_FIRST 0x8000   // what tells them from a slot of the table in ration_resolve()
#define RATION_UNLISTED_STRIDE 16      // bytes from one entry to the next
