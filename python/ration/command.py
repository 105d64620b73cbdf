"""`ration`, `rationd` and `ration-workload` on the command line, where ration was installed as a Python package."""
import os
import pathlib
import sys


def main() -> None:
    folder = pathlib.Path(__file__).resolve().parent / "native/bin"
    name = pathlib.Path(sys.argv[0]).name
    # rationd is ration under another name, which a wheel cannot carry twice as one file.
    program = folder / (name if (folder / name).exists() else "ration")
    os.execv(program, [str(folder / name), *sys.argv[1:]])
