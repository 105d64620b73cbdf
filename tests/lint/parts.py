#!/usr/bin/env python3
"""Holds the table of what each part of `./dev test` reads (tests/parts.py) to the tree: every tracked file is read by a part or listed as read by none, and every
path of the table exists. Part of `./dev lint`."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import parts  # noqa: E402


def problems():
    for path in parts.listed():
        if not parts.readers(path) and not parts.within(path, parts.UNREAD):
            yield f"{path}: no part of ./dev test reads it: name it in tests/parts.py"
    for part in [*parts.OTHERS, *parts.test_folders()]:
        for place in parts.reads(part):
            if not place.startswith("build/") and not any(parts.within(path, (place,)) for path in parts.listed()):
                yield f"tests/parts.py: {part} reads {place}, which is not there"
    for part in sorted(set(parts.TESTS) - set(parts.test_folders())):
        yield f"tests/parts.py: {part} is no folder of tests"


if __name__ == "__main__":
    found = list(problems())
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))
