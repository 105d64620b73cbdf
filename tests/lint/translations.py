#!/usr/bin/env python3
"""Pages in Chinese name the English page that they follow, with a number of its text: `<!-- follows: docs/tensorflow.md 1a2b3c4d -->`. Part of `./dev lint`, which
ends where the English page has moved on. Bring the Chinese page up to date, then write the new number with `translations.py --written PAGE`."""
import hashlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLLOWS = re.compile(r"^<!-- follows: (\S+) ([0-9a-f]{8}) -->$", re.M)


def number_of(page):
    return hashlib.sha256(page.read_bytes()).hexdigest()[:8]


def translations(root):
    return sorted([*root.glob("*.zh.md"), *(root / "docs/zh").rglob("*.md")])


def problems(root):
    for page in translations(root):
        name, follows = page.relative_to(root), FOLLOWS.search(page.read_text())
        if not follows:
            yield f"{name}: no line '<!-- follows: PAGE NUMBER -->'"
        elif not (root / follows[1]).is_file():
            yield f"{name}: it follows {follows[1]}, which is not there"
        elif number_of(root / follows[1]) != follows[2]:
            yield f"{name}: {follows[1]} has moved on; bring this page up to date, then: tests/lint/translations.py --written {name}"


def write(page):
    page.write_text(FOLLOWS.sub(lambda found: f"<!-- follows: {found[1]} {number_of(ROOT / found[1])} -->", page.read_text()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--written"]:
        for given in sys.argv[2:]:
            write(ROOT / given)
    else:
        found = list(problems(ROOT))
        print("\n".join(found), end="\n" if found else "")
        sys.exit(bool(found))
