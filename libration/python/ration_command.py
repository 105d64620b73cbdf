"""`ration` and the programs beside it, where ration is there as a Python package: what the console scripts start.

A module of its own, beside the package `ration`: importing that one makes a workload of the process, and a command is none.
"""
import os
import sys
from typing import Optional

_HERE = os.path.dirname(os.path.realpath(__file__))
# In an unpacked package, whose Python lies in lib/ration/python; else in a wheel, or in the source tree. Nowhere else: from
# site-packages, ../../../bin is where the console scripts lie that look for a program here.
_UNPACKED = "/lib/ration/python"
_PLACES = ["../../../bin"] if _HERE.endswith(_UNPACKED) else ["ration/native/bin", "../../build/release/bin"]
_FOLDERS = [os.path.normpath(os.path.join(_HERE, place)) for place in _PLACES]


def find(name: str = "ration") -> Optional[str]:
    """Returns the path of a program of this package; None: it has none of that name."""
    return next((path for path in (os.path.join(folder, name) for folder in _FOLDERS) if os.access(path, os.X_OK)), None)


def path() -> str:
    """Returns the program `ration`: beside the library that RATION_LIBRARY names, of this package, or on the PATH."""
    library = os.environ.get("RATION_LIBRARY")
    beside = os.path.join(os.path.dirname(os.path.dirname(library)), "bin/ration") if library else ""
    return beside if os.access(beside, os.X_OK) else find() or "ration"


def main(name: str = "") -> None:
    """Becomes the program that this process was started as; `name`: that one."""
    activation = sys.modules.get("ration.activation")
    if activation is not None:  # a sitecustomize has imported ration
        activation.withdraw()
    name = name or os.path.basename(sys.argv[0])
    program = find(name) or find()  # rationd is ration under another name, which a wheel cannot carry twice as one file
    if program is None:
        sys.exit(f"{name}: there is no program in {_FOLDERS[0]}. Install the whole package again: pip install --force-reinstall ration")
    os.execv(program, [os.path.join(os.path.dirname(program), name), *sys.argv[1:]])
