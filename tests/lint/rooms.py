#!/usr/bin/env python3
"""Holds the direction of the house: a file includes what lies in its own room or in one below it. The rooms of the sources stand in CMakeLists.txt from
the bottom up, those of the command line here. In the daemon each folder is a target, and includes what that target depends on by src/node/CMakeLists.txt, itself
or through another. Part of `./dev lint`."""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
COMMAND_LINE = ["text", "session", "start", "doctor", "verbs", "."]


def rooms_of(root):
    """The folders of the top CMakeLists.txt, each with its place: 0 is the lowest."""
    listed = re.search(r"set\(rooms ([^)]*)\)", (root / "CMakeLists.txt").read_text())[1].split()
    return {name: place for place, name in enumerate(listed)}


def room_of(path, rooms):
    """The innermost room in which a file lies; None: in none of them."""
    return next((str(folder) for folder in path.parents if str(folder) in rooms), None)


def found_file(root, including, spelled):
    """The file that the compiler finds, relative to the root; None: one that is made, or the system's."""
    for folder in (including.parent, pathlib.Path("src"), pathlib.Path("libration"), pathlib.Path("libration/include"), pathlib.Path(".")):
        if (root / folder / spelled).is_file():
            return folder / spelled
    return None


def folders_below(root):
    """Each folder of the daemon, with the folders that its target depends on. Those stand before it, so that there is no circle."""
    text = re.sub(r"#.*", "", (root / "src/node/CMakeLists.txt").read_text())
    below = {}
    for name, rest in re.findall(r"ration_library\(ration_node_?(\w*)([^)]*)\)", text):
        direct = {part.removeprefix("ration_node_") for part in rest.partition("DEPENDS")[2].split()} & below.keys()
        below[name or "."] = direct.union(*(below[other] for other in direct))
    return below


def upward(root):
    rooms, folders = rooms_of(root), folders_below(root)
    for file in sorted(path.relative_to(root) for top in ("src", "libration", "sim") for path in (root / top).rglob("*.[ch]pp")):
        room = room_of(file, rooms)
        for spelled in INCLUDE.findall((root / file).read_text()):
            aimed = found_file(root, file, spelled)
            other = aimed and room_of(aimed, rooms)
            if room is None or other is None:
                continue
            if rooms[other] > rooms[room]:
                yield file, aimed, f"{other} lies above {room} (CMakeLists.txt)"
            if room != other or room not in ("src/cli", "src/node"):
                continue
            here, there = (str(path.relative_to(room).parent) for path in (file, aimed))
            if room == "src/node" and here != there and there not in folders.get(here, ()):
                yield file, aimed, f"the target of {here} does not depend on that of {there} (src/node/CMakeLists.txt)"
            if room == "src/cli":
                if COMMAND_LINE.index(there) > COMMAND_LINE.index(here):
                    yield file, aimed, f"{room}/{there} lies above {room}/{here}"


if __name__ == "__main__":
    found = [f"{file}: includes {aimed}: {why}" for file, aimed, why in upward(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))
