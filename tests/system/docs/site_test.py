#!/usr/bin/env python3
"""What `./dev docs` makes of the pages: each whole for MkDocs (docs/site.py), and as text for `ration docs --text` (docs/terminal.py)."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest

SOURCE = pathlib.Path(os.environ["SOURCE"])
sys.path.insert(0, str(SOURCE / "docs"))
import terminal  # noqa: E402

# Python has a module site of its own.
described = importlib.util.spec_from_file_location("pages", SOURCE / "docs/site.py")
site = importlib.util.module_from_spec(described)
described.loader.exec_module(site)


class Tree(unittest.TestCase):
    def test_a_page_is_whole_from_its_title_to_its_last_heading(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, SOURCE / "docs/site.py", folder], check=True)
            for page in [*(SOURCE / "docs").rglob("*.md"), *(SOURCE / name for name in site.ELSEWHERE)]:
                headings = [line for line in page.read_text().splitlines() if line.startswith("## ")]
                laid = (pathlib.Path(folder) / site.place_of(page)).read_text().lstrip()
                self.assertTrue(laid.startswith("# "), f"{page}: {laid[:60]}")
                self.assertEqual([line for line in laid.splitlines() if line.startswith("## ")], [line for line in headings if line not in LEFT_OUT], page)

    def test_the_lines_of_a_chinese_paragraph_are_joined_for_the_site(self):
        for text, joined in {
            "一行。\n又一行": "一行。又一行", "汉\n字": "汉字", "**粗**\n字": "**粗**字", "[甲](a.md)、\n[乙](b.md)": "[甲](a.md)、[乙](b.md)", "- 项。\n  续": "- 项。续", "一。\n`ration ps`": "一。`ration ps`",
            "用\n`ration ps`": "用\n`ration ps`", "word\nword": "word\nword", "一。\n- 项": "一。\n- 项", "一。\n\n二": "一。\n\n二", "# 题\n文": "# 题\n文", "| 甲 |\n（乙）": "| 甲 |\n（乙）",
            "文：\n```text\n一。\n二。\n```\n（三）": "文：\n```text\n一。\n二。\n```\n（三）",
        }.items():
            self.assertEqual(site.joined(text), joined + "\n")
        with tempfile.TemporaryDirectory() as folder:
            site.main(f"{folder}/pages")
            for page in sorted(pathlib.Path(folder).glob("pages/zh/*.md")):
                text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
                self.assertEqual(re.findall(r".*[\u4e00-\u9fff，。；：、]\n *[\u4e00-\u9fff].*", re.sub("(?m)^#.*$", "", text)), [], page.name)


# Between comments <!-- source … --> in the READMEs.
LEFT_OUT = [line for name in ("README.md", "README.zh.md") for line in (SOURCE / name).read_text().split("<!-- source")[1].split("<!-- /source")[0].splitlines()]


class Text(unittest.TestCase):
    def text(self, markup, place="page.html"):
        with tempfile.TemporaryDirectory() as folder:
            page = types.SimpleNamespace(file=types.SimpleNamespace(dest_uri=place))
            site.on_page_content(markup, page, types.SimpleNamespace(site_dir=folder))
            return (pathlib.Path(folder) / place).with_suffix(".txt").read_text()

    def test_headings_are_underlined(self):
        self.assertEqual(self.text("<h1 id='a'>One</h1>\n<h2>显存 <code>x</code></h2>"), "One\n===\n\n显存 `x`\n--------\n")

    def test_a_paragraph_fits_the_terminal(self):
        for word in ("word", "显存", "显存，", "（显存）"):
            lines = self.text(f"<p>{' '.join([word] * 99)}</p>").splitlines()
            self.assertTrue(all(70 < terminal.width(line) <= 80 for line in lines[:-1]), lines)
        for begin in ("", "a", "aa", "aaa"):
            self.assertFalse([line for line in self.text(f"<p>{begin}{'显存、（显存）。显' * 50}</p>").splitlines() if line[0] in "、。）" or line[-1] == "（"])

    def test_the_end_of_a_line_of_the_source_is_a_space_except_in_chinese(self):
        self.assertEqual(self.text("<p>one\ntwo 显\n存。\n<code>a</code></p>"), "one two 显存。`a`\n")

    def test_code_stays_together_where_it_can(self):
        lines = self.text(f"<p>{'word ' * 12}<code>ration run --limit 4GiB</code> and on</p>").splitlines()
        self.assertEqual(lines[1], "`ration run --limit 4GiB` and on")
        self.assertEqual(self.text(f"<p><code>{'long ' * 30}</code></p>").splitlines()[0].count("long"), 16)

    def test_items_hang(self):
        text = self.text(f"<p>Before</p><ul>\n<li>{'word ' * 20}</li>\n<li>two<ol><li>inner</li></ol></li>\n</ul><ol><li>a</li><li>b</li></ol><p>After</p>")
        self.assertEqual(text, f"Before\n\n- {' '.join(['word'] * 15)}\n  {' '.join(['word'] * 5)}\n- two\n  1. inner\n\n1. a\n2. b\n\nAfter\n")

    def test_a_block_of_code_is_as_written(self):
        code = "x" * 120 + "  # &lt;\n\n  y\n"
        self.assertEqual(self.text(f"<p>A\n<div class='highlight'><pre><span></span><code><span>{code}</span></code></pre></div></p>"),
                         f"A\n\n    {'x' * 120}  # <\n\n      y\n")

    def test_a_link_names_the_page_to_open(self):
        for target, shown in (("ray.html#x", "a (see scenarios/ray)"), ("../node.html", "a (see node)"), ("#x", "a"), ("../pictures/a.png", "a"),
                              ("https://semver.org", "a (https://semver.org)")):
            self.assertEqual(self.text(f"<p><a href='{target}'>a</a></p>", "scenarios/page.html"), f"{shown}\n")
        self.assertEqual(self.text("<p>(<a href='node.html'>a</a>)</p>"), "(a, see node)\n")
        self.assertEqual(self.text("<p><a href='node.html'>docs/node.md</a>, <a href='https://a.b'>https://a.b</a></p>"), "docs/node.md, https://a.b\n")
        self.assertEqual(self.text("<p><a href='../node.html'>甲</a>（<a href='a.html'>乙</a>）</p>", "zh/page.html"), "甲（见 node）（乙，见 zh/a）\n")

    def test_pictures_and_comments_are_left_out(self):
        self.assertEqual(self.text("<p>A</p><!-- b --><p><picture><source srcset='d.png'><img alt='x' src='c.png'></picture></p><p>B</p>"), "A\n\nB\n")

    def table(self, *rows):
        return self.text("<table>" + "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows) + "</table>")

    def test_a_table_has_columns(self):
        self.assertEqual(self.table(("a", "字"), ("<code>bbb</code>", "显存"), ("c", "")), "a      字\n-----  ----\n`bbb`  显存\nc\n")

    def test_a_bar_in_a_table_has_no_backslash(self):
        self.assertEqual(self.table((r"<code>a\|b</code>",), ("x",)), "`a|b`\n-----\nx\n")

    def test_a_long_cell_is_wrapped_in_its_column(self):
        text = self.table(("name", "what"), ("a", "word " * 30), ("b", "显存" * 40))
        self.assertTrue(all(terminal.width(line) <= 80 for line in text.splitlines()))
        self.assertRegex(text, r"\Aname  what\n----  -+\na     word[\w ]*\n      word[\w ]*\n\nb     显")

    def test_a_table_that_is_too_wide_becomes_a_block_for_each_row(self):
        text = self.table(("call", "here", ""), ("x" * 50, "y" * 40, "z"), ("u", "", "v " * 60))
        self.assertEqual(text, f"call: {'x' * 50}\n  here: {'y' * 40}\n  z\n\ncall: u\n  {('v ' * 38).strip()}\n    {('v ' * 22).strip()}\n")
        self.assertEqual(self.table(("a" * 60, "b" * 60, ""), ("c", "c", "")), f"{'a' * 60}: c\n  {'b' * 60}: c\n")
        self.assertIn("词：" + "x" * 60, self.table(("词", "here"), ("x" * 60, "y" * 60)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
