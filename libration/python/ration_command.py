"""Finds and starts `ration` and the programs beside it in a Python package; the console scripts call it.

This module is outside the package `ration`, because importing that package makes the process a workload, and a command
is not a workload.
"""
import os
import sys
from typing import Optional

_HERE = os.path.dirname(os.path.realpath(__file__))
# The folders of an unpacked package, whose Python lies in lib/ration/python; else those of a wheel or of the source
# tree. From site-packages, ../../../bin would be the folder of the console scripts, and these scripts call main()
# below.
_UNPACKED = "/lib/ration/python"
_PLACES = ["../../../bin"] if _HERE.endswith(_UNPACKED) else ["ration/native/bin", "../../build/release/bin"]
_FOLDERS = [os.path.normpath(os.path.join(_HERE, place)) for place in _PLACES]


def find(name: str = "ration") -> Optional[str]:
    """Returns the path of a program of this package, or None if the package has no program of that name."""
    return next((path for path in (os.path.join(folder, name) for folder in _FOLDERS) if os.access(path, os.X_OK)), None)


def path() -> str:
    """Returns the path of `ration`: beside the library at RATION_LIBRARY, in this package, or else on the PATH."""
    library = os.environ.get("RATION_LIBRARY")
    beside = os.path.join(os.path.dirname(os.path.dirname(library)), "bin/ration") if library else ""
    return beside if os.access(beside, os.X_OK) else find() or "ration"


def main(name: str = "") -> None:
    """Replaces this process with the program `name`; without a name, with the program under whose name it was
    started."""
    activation = sys.modules.get("ration.activation")
    if activation is not None:  # a sitecustomize has imported ration
        activation.withdraw()
    name = name or os.path.basename(sys.argv[0])
    program = find(name) or find()  # rationd is ration under another name; a wheel has the file only once
    if program is None:
        sys.exit(f"{name}: there is no program in {_FOLDERS[0]}. Install the whole package again: pip install --force-reinstall ration")
    os.execv(program, [os.path.join(os.path.dirname(program), name), *sys.argv[1:]])
