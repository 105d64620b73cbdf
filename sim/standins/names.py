#!/usr/bin/env python3
"""Writes the names of a stand-in that its own source does not define. Those that match WORKS (a regular expression)
compute something: they return success, and run a kernel on their handle's stream unless they only set, make or undo
something. The others return STATUS, the library's word for what it does not support.
Usage: names.py NAMES WORKS STATUS OUT"""
import re
import sys

names, works, status = open(sys.argv[1]).read().split(), re.compile(sys.argv[2]), int(sys.argv[3])
settings = re.compile("nccl|Set|Destroy|Restore|Descriptor")
with open(sys.argv[4], "w") as out:
    out.write('// Written by names.py.\n#include "standin.hpp"\n'
              '#define NAME extern "C" [[gnu::weak, gnu::visibility("default")]] int\n')
    for name in names:
        if not works.search(name):
            out.write(f'NAME {name}() {{ return ration::standin::not_offered("{name}", {status}); }}\n')
        elif settings.search(name) or name + "_v2" in names:  # what became _v2 had no handle before
            out.write(f"NAME {name}() {{ return 0; }}\n")
        else:
            out.write(f"NAME {name}(void* handle) {{ return ration::standin::compute(handle); }}\n")
