#!/usr/bin/env python3
"""Every file that names ration's version names that of the file VERSION. Part of `./dev lint`."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Each with what stands around the version.
PLACES = (
    ("docs/node.md", r"^ration (\S+): 1 GPU"),
    ("docs/stability.md", r"The current version is (\d+\.\d+\.\d+)"),
    ("libration/include/ration/ration.h", r'Returns the version: "(.*)"'),
    ("libration/python/ration_jupyter/labextension/package.json", r'"version": "(.*)"'),
    ("share/ration/kubernetes/Chart.yaml", r"^version: (.*)"),
    ("share/ration/kubernetes/Chart.yaml", r"^appVersion: (.*)"),
    ("tests/gpu/README.md", r"ration-(.*)-linux-x86_64"),
    ("web/mock/answers.ts", r'^    version: "(.*?)"'),
    ("web/mock/world.ts", r'{ version: "(.*?)"'),
)


def problems(root):
    version = (root / "VERSION").read_text().strip()
    for file, around in PLACES:
        found = re.search(around, (root / file).read_text(), re.M)
        if not found or found[1] != version:
            yield f"{file}: names {'version ' + found[1] if found else 'no version'}, and VERSION {version}"


if __name__ == "__main__":
    found = list(problems(ROOT))
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))
