#!/usr/bin/env python3
"""One word for one thing (docs/glossary.md), in all that people read: what programs print, what documents say, what the dashboard shows."""
import os
import pathlib
import re
import unittest

SOURCE = pathlib.Path(os.environ["SOURCE"])

# Names of interfaces that stay as they are: options, keys, functions, members, values.
NAMES = re.compile(r"""--refused|`refused`|^refused = |\\?["']refused\\?["']|ration_(?:last_)?refusal|kRefused|\brefusals\{0\}|->refusals|responses/refused""", re.M)
NOT_SAID = {
    re.compile(r"refus", re.I): "denied (memory) or rejected (a request, a file, a connection)",
    re.compile(r"(?<!limit )(?<!limits )\bin force\b", re.I): "in force is said of limits",
}


def literals(path):
    """The texts of a C++ file, line by line; pieces that follow each other are one."""
    text = re.sub(r"(?m)//.*$|^#include.*$", "", path.read_text()) if path.suffix != ".ts" else re.sub(r"(?m)^\s*(//|\*|/\*).*$", "", path.read_text())
    for found in re.finditer(r'(?:"(?:\\.|[^"\\\n])*"\s*)+', text):
        yield re.sub(r'"\s*"', "", found[0])


def texts():
    for path in sorted([*SOURCE.glob("src/**/*.cpp"), *SOURCE.glob("libration/**/*.cpp"), *SOURCE.glob("sim/workload/*.cpp")]):
        yield from ((path, text) for text in literals(path))
    for path in sorted(SOURCE.glob("web/src/text/*.ts")):
        yield from ((path, text) for text in literals(path))
    whole = ["docs/**/*.md", "libration/python/*.md", "libration/python/ration*/**/*.py", "libration/include/ration/*", "examples/**/*.md", "sim/*.md", "share/ration/**/*.*"]
    for path in sorted(path for pattern in whole for path in SOURCE.glob(pattern) if path.is_file() and path.name not in ("glossary.md", "benchmarks.md")):
        yield from ((path, line) for line in path.read_text().splitlines())


class Words(unittest.TestCase):
    def test_everything_that_is_read_uses_the_words_of_the_glossary(self):
        wrong = [f"{path.relative_to(SOURCE)}: {text.strip()!r}: {instead}" for path, text in texts()
                 for word, instead in NOT_SAID.items() if word.search(NAMES.sub("", text))]
        self.assertEqual(wrong, [])

    def test_the_sentences_are_found(self):
        told = " ".join(text for _, text in texts())
        for sentence in ("was denied", "The limit in force may be lower", "Requests for memory that were denied"):
            self.assertIn(sentence, told)


if __name__ == "__main__":
    unittest.main(verbosity=2)
