"""The command `ration`: its path, its options, and valid names for it."""
from __future__ import annotations

import hashlib
import os
import pathlib
import re
import shutil
import sys
from typing import List

import ration_command

LONGEST_NAME = 59


def find() -> str:
    """Returns the path of `ration`: RATION_PROGRAM, else `ration` in this Python's package, beside this Python, or on PATH.

    Raises:
        FileNotFoundError: `ration` is in none of these places.
    """
    places = [os.environ.get("RATION_PROGRAM"), ration_command.find(), str(pathlib.Path(sys.executable).with_name("ration"))]
    for place in [*places, shutil.which("ration")]:
        if place and os.access(place, os.X_OK):
            return os.path.abspath(place)
    raise FileNotFoundError("the command ration was not found: install the package, or set RATION_PROGRAM to its path")


def text_of(size: str) -> str:
    """Returns `4 GiB` for `4GiB`."""
    return re.sub(r"^([0-9.]+)(\D.*)$", r"\1 \2", size)


def name_of(text: str, ending: str = "") -> str:
    """Makes a valid name of a workload or tenant from any text; a hyphen replaces characters that are not allowed in a
    name.

    `ending` makes the name unique. Without it a changed name ends in a hash of the text, so that two users never get
    the same name.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "notebook"
    if not ending and (name != text or len(name) > LONGEST_NAME):
        ending = hashlib.sha256(text.encode()).hexdigest()[:6]
    ending = "-" + ending if ending else ""
    return name[:LONGEST_NAME - len(ending)] + ending


def with_options(command: List[str], *options: str) -> List[str]:
    """Returns the `ration run` command with these options before its own."""
    place = command.index("run") + 1
    return [*command[:place], *options, *command[place:]]


def has(command: List[str], option: str) -> bool:
    """Returns True if the `ration run` command has this option."""
    options = command[:command.index("--")] if "--" in command else command
    return any(word == option or word.startswith(option + "=") for word in options)
