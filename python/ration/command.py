"""`ration` on the command line, where ration was installed as a Python package."""
import os
import pathlib
import sys


def main() -> None:
    program = str(pathlib.Path(__file__).resolve().parent / "native/bin/ration")
    os.execv(program, [program, *sys.argv[1:]])
