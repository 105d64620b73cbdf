#!/usr/bin/env python3
"""Writes the names of a stand-in that its own source does not define. Those that match WORKS (a regular expression)
compute something: they return success, and run a kernel on their handle's stream unless they only set, make or undo
something. The others return STATUS, the library's word for what it does not support.
Usage: names.py NAMES WORKS STATUS OUT

NAMES has one function a line, and after it what the function writes: `i6=i2*l3` to its 6th argument a number of type
int, for a workspace of as many elements as arguments 2 (int) and 3 (64 bits) multiplied; `-l7` a zero of 64 bits to the
7th; `d8*i9` to the 8th, on the device and its stream, as many zeros as argument 9 says: "done". `m5` is argument 5, a sparse matrix,
which counts for its non-zero elements. Arguments in floating-point registers are not counted."""
import re
import sys

TYPES = {"i": "int", "l": "std::int64_t", "m": "ration::standin::Nonzeros"}
TARGETS = {"i": "int*", "l": "std::size_t*", "d": "int*"}


def lines_of(writes):
    """The arguments that are read with their types, and the lines of the function's body."""
    arguments, body = {}, []

    def target(text):
        arguments[int(text[1:])] = TARGETS[text[0]]
        return f"a{text[1:]}"

    def product(factors):
        for factor in factors:
            arguments[int(factor[1:])] = TYPES[factor[0]]
        return " * ".join(f"ration::standin::count(a{factor[1:]})" for factor in factors) or "1"

    for write in writes:
        if write[0] == "-":
            body.append(f"*{target(write[1:])} = 0;")
        elif write[0] == "d":
            out, *factors = write.split("*")
            arguments[1] = "void*"
            body.append(f"ration::standin::compute(a1); ration::standin::write_zeros({target(out)}, {product(factors)}, a1);")
        else:
            out, factors = write.split("=")
            body.append(f"ration::standin::workspace({target(out)}, {product(factors.split('*'))});")
    return arguments, body


works, status = re.compile(sys.argv[2]), int(sys.argv[3])
settings = re.compile("nccl|Set|Destroy|Restore|Descriptor")
lines = [line.split() for line in open(sys.argv[1])]
every = {name for name, *_ in lines}
with open(sys.argv[4], "w") as out:
    out.write('// Written by names.py.\n#include "standin.hpp"\n'
              '#define NAME extern "C" [[gnu::weak, gnu::visibility("default")]] int\n')
    for name, *writes in lines:
        if writes:
            arguments, body = lines_of(writes)
            listed = ", ".join(f"{arguments[n]} a{n}" if n in arguments else "void*" for n in range(1, max(arguments) + 1))
            out.write(f"NAME {name}({listed}) {{ {' '.join(body)} return 0; }}\n")
        elif not works.search(name):
            out.write(f'NAME {name}() {{ return ration::standin::not_offered("{name}", {status}); }}\n')
        elif settings.search(name) or name + "_v2" in every:  # a function that has a _v2 took no handle before
            out.write(f"NAME {name}() {{ return 0; }}\n")
        else:
            out.write(f"NAME {name}(void* handle) {{ return ration::standin::compute(handle); }}\n")
