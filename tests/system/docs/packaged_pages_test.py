#!/usr/bin/env python3
"""The pages as a package has them: what they point to lies in it, and the README says nothing of what is in the source alone."""
import os
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.environ["SOURCE"] + "/packaging")
import package  # noqa: E402


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        package.pages(self.root)

    def test_every_document_that_is_pointed_to_is_there(self):
        documents = [self.root / "README.md", self.root / "README.zh.md", self.root / "CHANGELOG.md", *(self.root / "share/doc/ration").rglob("*.md")]
        self.assertGreater(len(documents), 8)
        for document in documents:
            for link in re.findall(r"\]\((?!https?:)([^)#\s]+)|(?:src|srcset)=\"(?!https?:)([^\"]+)\"", document.read_text()):
                aimed = (document.parent / (link[0] or link[1])).resolve()
                self.assertTrue(aimed.exists() or aimed == self.root.resolve() / "LICENSE", f"{document.name}: {link}")

    def test_what_makes_the_site_is_left_out(self):
        self.assertEqual([file.name for file in (self.root / "share/doc/ration/docs").rglob("*") if file.suffix in (".py", ".pyc", ".yml")], [])

    def test_the_readme_names_no_command_of_the_source(self):
        self.assertNotIn("./dev", (self.root / "README.md").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
