#!/usr/bin/env python3
"""Writes the names of a stand-in that its own source does not define. Those that match WORKS (a regular expression)
compute something: they return success. The others return STATUS, the library's word for what it does not support.
Usage: names.py NAMES WORKS STATUS OUT"""
import re
import sys

names, works, status = open(sys.argv[1]).read().split(), re.compile(sys.argv[2]), int(sys.argv[3])
with open(sys.argv[4], "w") as out:
    out.write('// Written by names.py.\n#include "standin.hpp"\n'
              '#define NAME extern "C" [[gnu::weak, gnu::visibility("default")]] int\n')
    for name in names:
        body = "return 0;" if works.search(name) else f'return ration::standin::not_offered("{name}", {status});'
        out.write(f"NAME {name}() {{ {body} }}\n")
