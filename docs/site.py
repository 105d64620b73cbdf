#!/usr/bin/env python3
"""Lays the documentation out for MkDocs: docs/site.py FOLDER. Every page of docs/, and those that lie elsewhere in the sources, in one tree; links between them follow."""
import os
import pathlib
import re
import shutil
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
ELSEWHERE = {"README.md": "index.md", "README.zh.md": "zh/index.md", "ARCHITECTURE.md": "architecture.md", "DECISIONS.md": "decisions.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
             "libration/python/README.md": "python.md", "sim/README.md": "simulator.md", "tests/gpu/README.md": "gpu.md", "examples/README.md": "examples.md"}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def place_of(path):
    """Of a file of the sources in the tree; None: it is not shown."""
    name = path.relative_to(SOURCE).as_posix()
    return ELSEWHERE.get(name, name.removeprefix("docs/") if name.startswith("docs/") else None)


def spaced(text):
    """With an empty line in front of each table and list: GitHub needs none, MkDocs does."""
    lines, fenced = [], False
    for line in text.splitlines():
        before = lines[-1] if lines else ""
        begins = re.match(r"(?:\||- |\d+\. )", line)
        if begins and not fenced and before.strip() and not before.startswith((begins[0][:1], " ")) and not re.match(r"\d+\. ", before):
            lines.append("")
        if line.startswith("```"):
            fenced = not fenced
        lines.append(line)
    return "\n".join(lines) + "\n"


def main(folder):
    target = pathlib.Path(folder)
    shutil.rmtree(target, ignore_errors=True)
    pages = [*(SOURCE / "docs").rglob("*.md"), *(SOURCE / name for name in ELSEWHERE)]
    for page in pages:
        here = target / place_of(page)

        def follow(link):
            aimed = (page.parent / link[2]).resolve()
            place = place_of(aimed)
            # What is no page is named: it lies in the sources.
            return f"[{link[1]}]({os.path.relpath(target / place, here.parent)}{link[3] or ''})" if place and place.endswith(".md") else link[1]

        text = re.sub(r"^<!-- (?:needs|run by|follows): .*-->\n", "", page.read_text())
        here.parent.mkdir(parents=True, exist_ok=True)
        here.write_text(LINK.sub(follow, spaced(text)).replace("docs/pictures/", os.path.relpath(target / "pictures", here.parent) + "/"))
    for picture in (SOURCE / "docs/pictures").glob("*.png"):
        (target / "pictures").mkdir(exist_ok=True)
        shutil.copy(picture, target / "pictures" / picture.name)


# What the theme writes around a page, in Chinese.
FRAME = {'<html lang="en"': '<html lang="zh-CN"', "Skip to content": "跳转到正文", "Table of contents": "目录", "Back to top": "回到页面顶部", 'placeholder="Search"': 'placeholder="搜索"',
         "Initializing search": "正在初始化搜索", "Copy to clipboard": "复制", "Type to start searching": "输入以开始搜索"}


def on_post_page(output, page, **_):
    """Called by MkDocs (`hooks` of mkdocs.yml) with each page: the theme knows one language for all of them."""
    if page.file.src_uri.startswith("zh/"):
        for english, chinese in FRAME.items():
            output = output.replace(english, chinese)
    return output


if __name__ == "__main__":
    main(sys.argv[1])
