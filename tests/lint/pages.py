#!/usr/bin/env python3
"""Holds the pages for maintainers to the sources: every path and every test that they name exists, every room has its line, no cell of a table is longer than
200 characters. Part of `./dev lint`."""
import pathlib
import re
import subprocess
import sys

PAGES = ["ARCHITECTURE.md", "CONTRIBUTING.md", "DECISIONS.md"]
MADE = ("build/", "http", "/")  # by a build, elsewhere
FILE = re.compile(r"[\w*-]+\.(?:[ch]pp|[hS]|py|md|tsv|tsx?|toml|json|txt|inc|pml)")
TEST = re.compile(r"[A-Z]\w+\.[A-Z]\w+")
CELL = 200


def words(text):
    """What stands in backticks, or in a block of commands, a word each; drawings are left out."""
    fenced = re.findall(r"```(?:console|bash)\n(.*?)```", text, re.S)
    plain = re.sub(r"```.*?```", "", text, flags=re.S)
    for part in [*re.findall(r"`([^`\n]+)`", plain), *fenced]:
        yield from (word.strip("'\",;()[]") for word in part.split())


def is_path(word, tops):
    return FILE.fullmatch(word) or ("/" in word and word.split("/")[0] in tops)


def problems(root):
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True).stdout.split()
    files = {path for path in listed if (root / path).exists()}
    folders = {str(parent) for path in files for parent in pathlib.PurePath(path).parents}
    tops, names = {folder for folder in folders if "/" not in folder} - {"."}, {pathlib.PurePath(path).name for path in files}
    tests = set()
    for path in files:
        if path.startswith("tests/") and path.endswith(".cpp"):
            tests.update(f"{suite}.{case}" for suite, case in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", (root / path).read_text(), re.M))
    for page in PAGES:
        text = (root / page).read_text()
        for word in words(text):
            bare = re.sub(r":\d+$", "", word).removeprefix("./").rstrip("/")
            if bare.startswith(MADE) or "…" in bare or "NAME" in bare:
                continue
            if TEST.fullmatch(bare) and not FILE.fullmatch(bare):
                if bare not in tests:
                    yield f"{page}: no test is called {bare}"
            elif is_path(bare, tops) and "*" not in bare and bare not in files | folders | names:
                yield f"{page}: there is no {bare}"
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("|"):
                for cell in line.strip("|").split("|"):
                    if len(cell.strip()) > CELL:
                        yield f"{page}:{number}: a cell of {len(cell.strip())} characters, {CELL} at most"
    named = set(words((root / PAGES[0]).read_text()))
    for folder in sorted(folders):
        parent = folder.rpartition("/")[0]
        if parent in ("src", "src/node") and folder not in named:
            yield f"{PAGES[0]}: the room {folder} has no line"


if __name__ == "__main__":
    found = list(problems(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))
