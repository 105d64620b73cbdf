#!/usr/bin/env python3
"""`ration docs` beside pages as a package has them: every name and path under which people look for a page, the list, and the page that the help of an error names."""
import importlib.util
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node_client import BIN, SOURCE  # noqa: E402

described = importlib.util.spec_from_file_location("package", SOURCE / "packaging/package.py")
sys.path.insert(0, str(SOURCE / "packaging"))
package = importlib.util.module_from_spec(described)
described.loader.exec_module(package)


class ManualPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name)
        (cls.root / "bin").mkdir()
        shutil.copy(BIN / "ration", cls.root / "bin")
        package.pages(cls.root)
        cls.site = cls.root / "share/doc/ration/site"
        subprocess.run([sys.executable, SOURCE / "docs/site.py", cls.site], check=True)
        cls.names = []
        for page in list(cls.site.rglob("*.md")):
            cls.names.append(page.relative_to(cls.site).with_suffix("").as_posix())
            page.with_suffix(".txt").write_text(f"The title of {cls.names[-1]}\n=====\n")
            page.rename(page.with_suffix(".html"))
        (cls.site / "404.html").write_text("not a page")

    def ration(self, *words):
        return subprocess.run([self.root / "bin/ration", *words], capture_output=True, text=True, timeout=60)

    def opened(self, *typed):
        done = self.ration("docs", *typed)
        return done.stderr or pathlib.Path(done.stdout.strip()).relative_to(self.site).with_suffix("").as_posix()

    def test_a_page_is_found_under_every_path_that_people_write(self):
        self.assertEqual(self.ration("docs").stdout, self.ration("docs", "index").stdout)
        for typed, name in {"README": "index", "README.md": "index", "./README.md": "index", "share/doc/ration/README.md": "index", "README.zh.md": "zh/index",
                            "zh": "zh/index", "tensorflow.md": "tensorflow", "docs/tensorflow.md": "tensorflow", "share/doc/ration/docs/tensorflow.md": "tensorflow",
                            "/usr/share/doc/ration/docs/zh/tensorflow.md": "zh/tensorflow", "zh/tensorflow.md": "zh/tensorflow", "docs/scenarios/ray.md": "scenarios/ray",
                            "ray": "scenarios/ray", "libration/python/README.md": "python", "sim/README.md": "simulator", "tests/gpu/README.md": "gpu", "examples/README.md": "examples",
                            "SECURITY": "SECURITY", "docs/SECURITY.md": "SECURITY", "security": "SECURITY", "Changelog.md": "changelog", "oom": "out-of-memory", "docs/k8s": "scenarios/kubernetes",
                            str(self.site / "zh/index.html"): "zh/index"}.items():
            self.assertEqual(self.opened(typed), name, typed)

    def test_a_page_is_found_under_several_words(self):
        for typed, name in ((("out", "of", "memory"), "out-of-memory"), (("Out", "of", "memory"), "out-of-memory"), (("zh", "tensorflow"), "zh/tensorflow")):
            self.assertEqual(self.opened(*typed), name, typed)
        self.assertIn("there is no page 'out of order'", self.ration("docs", "out", "of", "order").stderr)
        self.assertEqual(self.ration("help", "out", "of", "memory").stdout, self.ration("help", "out-of-memory").stdout)

    def test_who_asks_for_a_chinese_page_is_told_where_there_is_none(self):
        done = self.ration("docs", "zh/node")
        self.assertTrue(done.stdout.endswith("site/node.html\n"), done.stdout)
        self.assertEqual(done.stderr, "there is no Chinese page of that name (没有此中文页面); this is 'node' in English\n")
        self.assertEqual(self.ration("docs", "zh/tensorflow").stderr, "")

    def test_on_a_terminal_the_way_to_read_the_page_there_is_named(self):
        main, other = pty.openpty()
        done = subprocess.run([self.root / "bin/ration", "docs", "oom"], stdout=other, stderr=subprocess.PIPE, text=True, timeout=60)
        os.close(other)
        self.assertIn("/out-of-memory.html", os.read(main, 4096).decode())
        self.assertEqual(done.stderr, "on this terminal: ration docs --text out-of-memory\n")
        self.assertEqual(self.ration("docs", "oom").stderr, "", "a browser's path alone")
        for topic in ("out-of-memory", "tensorflow", "pytorch", "tensorboard"):
            self.assertRegex(self.ration("help", topic).stdout, "ration docs --text ")

    def test_every_page_that_a_page_of_the_package_links_to_is_found_as_written(self):
        links = {link for page in (self.root / "README.md", self.root / "README.zh.md", *(self.root / "share/doc/ration").rglob("*.md"))
                 for link in re.findall(r"\]\((?!\w+:)([^)#\s]+\.md)", page.read_text())}
        self.assertGreater(len(links), 30)
        for link in links:
            self.assertIn(self.opened(link), self.names, link)

    def test_a_page_that_is_not_there_is_answered_with_the_nearest(self):
        done = self.ration("docs", "tensorflw")
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertRegex(done.stderr, r"there is no page 'tensorflw'\. The nearest: tensorflow, zh/tensorflow\.\n +ration docs --list ")
        self.assertIn("The nearest: scenarios/kubernetes.", self.ration("docs", "docs/kube.md").stderr)
        self.assertNotIn("nearest", self.ration("docs", "q" * 9).stderr + self.ration("docs", "a" * 999).stderr + self.ration("docs", "/").stderr)

    def test_all_pages_are_listed_with_their_titles(self):
        lines = self.ration("docs", "--list").stdout.splitlines()
        self.assertEqual(sorted(line.split()[0] for line in lines), sorted(self.names))
        self.assertTrue(all(re.fullmatch(r"(\S+) +The title of \1", line) for line in lines), lines)
        self.assertEqual(self.ration("docs", "--list", "node").returncode, 2)

    def test_the_help_of_an_error_names_a_page_that_is_there(self):
        self.assertIn("\nmore: ration docs --text scenarios/where-is-the-rest\n", self.ration("help", "E1204").stdout)
        errors = re.findall(r"^  (E\d{4})", self.ration("help", "errors").stdout, re.M)
        named = {page for error in errors for page in re.findall(r"^more: ration docs --text (.*)", self.ration("help", error).stdout, re.M)}
        self.assertGreater(len(named), 8)
        self.assertEqual(named - set(self.names), set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
