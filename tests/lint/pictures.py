#!/usr/bin/env python3
"""Pictures of the terminal and the dashboard are at most a week older than what they show. Part of `./dev lint`; `./dev pictures` makes them anew."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DAYS = 7
SHOWN = {
    "terminal.png": ["src/cli", "src/rows"],
    "top.png": ["src/top"],
    "dashboard-light.png": ["web/src"],
    "dashboard-dark.png": ["web/src"],
}


def changed(*paths):
    """When the newest commit changed one of them, in seconds; 0 where no commit is known."""
    return int(subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct", "--", *paths], capture_output=True, text=True).stdout or 0)


def problems():
    for picture, shown in SHOWN.items():
        days = (changed(*shown) - changed(f"docs/pictures/{picture}")) / 86400
        if days > DAYS:
            yield f"docs/pictures/{picture} is {days:.0f} days older than {', '.join(shown)}: ./dev pictures"


if __name__ == "__main__":
    found = list(problems())
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))
