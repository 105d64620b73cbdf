#!/usr/bin/env python3
"""Writes names.cpp of one version of the simulated runtime: every name that the real library exports. A name without an
implementation answers that it is not simulated; the per-thread twins (_ptsz, _ptds) are jumps to their plain names: all
work is done when it is put on a stream, so there is no difference. Usage: names.py NAMES OUT"""
import sys

names = open(sys.argv[1]).read().split()
plain = [name for name in names if not name.endswith(("_ptsz", "_ptds"))]
with open(sys.argv[2], "w") as out:
    out.write('// Written by names.py.\n#include "stub.hpp"\n')
    for name in plain:
        out.write(f'STUB({name})\n')
    for name in names:
        if name not in plain:
            base = name.rsplit("_", 1)[0]
            out.write(f'TWIN({name}, {base})\n' if base in plain else f'STUB({name})\n')
