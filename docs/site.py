#!/usr/bin/env python3
"""Lays the documentation out for MkDocs: docs/site.py FOLDER. Every page of docs/, and those that lie elsewhere in the sources, in one tree; links between them follow."""
import copy
import os
import pathlib
import posixpath
import re
import shutil
import sys

import terminal

SOURCE = pathlib.Path(__file__).resolve().parents[1]
ELSEWHERE = {"README.md": "index.md", "README.zh.md": "zh/index.md", "ARCHITECTURE.md": "architecture.md", "DECISIONS.md": "decisions.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
             "libration/python/README.md": "python.md", "sim/README.md": "simulator.md", "tests/gpu/README.md": "gpu.md", "examples/README.md": "examples.md"}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")

FULL_WIDTH, CHINESE = re.compile("[\u3000-\u303f\uff00-\uffef“”‘’…]"), re.compile("[\u3000-\u303f\u3400-\u9fff\uff00-\uffef“”‘’…]")
BLOCK, ITEM = re.compile(r"[|#<]|```|!\["), re.compile(r" *(?:[-*] |\d+\. )")


def place_of(path):
    """Of a file of the sources in the tree; None: it is not shown."""
    name = path.relative_to(SOURCE).as_posix()
    return ELSEWHERE.get(name, name.removeprefix("docs/") if name.startswith("docs/") else None)


def is_chinese(place):
    return place.startswith("zh/")


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


def joined(text):
    """With no line break between two Chinese characters of a paragraph: a browser shows it as a space."""
    lines, fenced = [], False
    for line in text.splitlines():
        before = lines[-1] if lines else ""
        ends, begins = re.sub(r"\*+$|\]\([^)\s]*\)$", "", before)[-1:], line.lstrip(" *[")[:1]
        between = (CHINESE.match(ends) and CHINESE.match(begins)) or FULL_WIDTH.match(ends) or FULL_WIDTH.match(begins)
        if between and not fenced and before.strip() and line.strip() and not BLOCK.match(before) and not BLOCK.match(line) and not ITEM.match(line):
            lines[-1] += line.lstrip()
            continue
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
            if not place or not place.endswith(".md"):
                return link[1]
            told = re.search("英文|English", link.string[max(0, link.start() - 6):link.end() + 6])
            mark = "（英文）" if is_chinese(place_of(page)) and not is_chinese(place) and not told else ""
            return f"[{link[1]}]({os.path.relpath(target / place, here.parent)}{link[3] or ''}){mark}"

        text = re.sub(r"^<!-- source.*?^<!-- /source.*?\n|^<!-- (?:needs|run by|follows): .*?-->\n", "", page.read_text(), flags=re.M | re.S)
        here.parent.mkdir(parents=True, exist_ok=True)
        shown = LINK.sub(follow, spaced(text))
        here.write_text((joined(shown) if is_chinese(place_of(page)) else shown).replace("docs/pictures/", os.path.relpath(target / "pictures", here.parent) + "/"))
    for picture in (SOURCE / "docs/pictures").glob("*.png"):
        (target / "pictures").mkdir(exist_ok=True)
        shutil.copy(picture, target / "pictures" / picture.name)


# What the theme writes around a page, in Chinese.
FRAME = {'<html lang="en"': '<html lang="zh-CN"', "Skip to content": "跳转到正文", "Table of contents": "目录", "Back to top": "回到页面顶部",
         "Initializing search": "正在初始化搜索", "Copy to clipboard": "复制", "Type to start searching": "输入以开始搜索",
         '="Search"': '="搜索"', '="Clear"': '="清空"', '="Dark"': '="深色"', '="Light"': '="浅色"', '="Header"': '="页眉"', '="Navigation"': '="导航"'}
# The titles of mkdocs.yml, in the menu of a page in Chinese.
MENU = {"What do you want?": "你想做什么", "Model servers": "模型服务", "Training whose shares change": "份额会变的训练", "A training that dies": "跑着跑着就挂的训练",
        "Two model servers on one GPU": "一块 GPU 上的两个模型服务", "From 24 GB to 16 GB": "从 24 GB 到 16 GB", "More than the tensors": "比张量多出来的显存", "CI without a GPU": "没有 GPU 的 CI",
        "Accounts for a department": "部门账目", "How it works": "原理", "The daemon": "守护进程", "What it cannot hold": "哪些情况管不住", "Frameworks": "各个框架", "Tests of memory": "测试显存",
        "Recordings in other programs": "在其他程序中查看运行记录", "How many GPUs would it take": "需要多少块 GPU", "How a limit holds": "上限怎样生效", "Recordings": "运行记录", "The pool": "显存池",
        "The simulated GPU": "模拟的 GPU", "Reference": "参考", "HTTP": "HTTP 接口", "Metrics": "指标", "What stays the same": "各版本之间什么不变", "Security": "安全", "Figures": "性能数据", "Changes": "变更记录",
        "For whoever changes it": "参与开发", "Architecture": "内部结构", "Decisions": "设计决定", "Working on it": "怎样参与", "Machines with a GPU": "有 GPU 的机器", "Examples": "示例"}


def on_page_context(context, page, nav, **_):
    """Called by MkDocs with each page: the menu of a page in Chinese has the pages in Chinese first, then those that are in English alone."""
    if is_chinese(page.file.src_uri):
        (own,) = (item for item in nav.items if item.title == "中文")
        translated = {child.file.src_uri.rpartition("/")[2] for child in own.children}
        menu = context["nav"] = copy.copy(nav)
        menu.homepage, menu.items = own.children[0], [own]
        for section in (copy.copy(item) for item in nav.items if item.children and item is not own):
            section.title = f"{MENU.get(section.title, section.title)}（英文）"
            section.children = [copy.copy(child) for child in section.children if child.file.src_uri.rpartition("/")[2] not in translated]
            for child in section.children:
                child.title = MENU.get(child.title, child.title)
            menu.items.append(section)
        menu.items.append(copy.copy(nav.homepage))
        menu.items[-1].title = "English"
    return context


def on_page_content(html, page, config, **_):
    """Called by MkDocs with the HTML of each page: writes the page for `ration docs --text` beside the HTML."""
    # GitHub needs a backslash in front of a bar within a table, also in code; MkDocs shows it there.
    html = re.sub(r"<td.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html, flags=re.S)
    place = page.file.dest_uri

    def see(target, text):
        if re.match(r"\w+:", target):
            return "" if target == text else target
        other, _, _ = target.partition("#")
        name = posixpath.normpath(posixpath.join(posixpath.dirname(place), other)).removesuffix(".html")
        if not other.endswith(".html") or text.endswith(".md"):  # `ration docs` takes the path of a page, too
            return ""
        return f"见 {name}" if is_chinese(place) else f"see {name}"

    file = pathlib.Path(config.site_dir, place).with_suffix(".txt")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(terminal.as_text(html, see, is_chinese(place)))
    return html


def on_post_page(output, page, **_):
    """Called by MkDocs (`hooks` of mkdocs.yml) with each page: the theme knows one language for all of them."""
    if is_chinese(page.file.src_uri):
        for english, chinese in FRAME.items():
            output = output.replace(english, chinese)
    return output


if __name__ == "__main__":
    main(sys.argv[1])
