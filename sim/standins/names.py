#!/usr/bin/env python3
"""Writes the names of a stand-in that its own source does not define. Those that match WORKS (a regular expression)
compute something: they return success. The others return the library's NOT_SUPPORTED. Usage: names.py NAMES WORKS OUT"""
import re
import sys

names, works = open(sys.argv[1]).read().split(), re.compile(sys.argv[2])
with open(sys.argv[3], "w") as out:
    out.write("// Written by names.py.\nnamespace ration::standin {\nint not_offered(const char* function) noexcept;\n}\n"
              "#define NAME extern \"C\" [[gnu::weak, gnu::visibility(\"default\")]] int\n")
    for name in names:
        body = "return 0;" if works.search(name) else f'return ration::standin::not_offered("{name}");'
        out.write(f"NAME {name}() {{ {body} }}\n")
