#!/usr/bin/env python3
"""Bundles the dashboard and the page of a recording, and writes each as one C++ source: embed.py OUTPUT.cpp PAGE.cpp WORK_FOLDER NODE NPM

NODE and NPM may be empty. Without them, or where the packages cannot be had (no network, no earlier node_modules), one plain
page is embedded that says what to do, and the build goes on: the daemon is useful without its dashboard.
"""

import fcntl
import gzip
import hashlib
import pathlib
import subprocess
import sys

WEB = pathlib.Path(__file__).resolve().parent
TYPES = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
PLAIN = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>ration</title></head>
<body><main><!--SNAPSHOT--><p>This rationd was built without its dashboard: {reason}. With Node.js 18 or newer and npm
(Debian: apt-get install nodejs npm) build it again: ./dev build. Until then: ration ps, ration events, ration report.</p></main></body></html>
"""


def packages(npm):
    """Installs what the lock names, unless that is what is there."""
    lock, there = WEB / "package-lock.json", WEB / "node_modules" / ".package-lock.json"
    if there.exists() and there.stat().st_mtime >= lock.stat().st_mtime:
        return
    subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], cwd=WEB, check=True, timeout=600)


def bundle(work, node, npm):
    """The reason why there is no bundle; None when there is one in work/dist."""
    if not node or not npm:
        return "Node.js was not there"
    # Several presets may be built at once, and share node_modules.
    with open(WEB / ".npm-lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            packages(npm)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"the dashboard is left out: {error}", file=sys.stderr)
            return "its packages could not be had"
    # What the sources say wrong is an error; only missing tools are not.
    subprocess.run([node, str(WEB / "build.mjs"), str(work / "dist")], check=True, stdout=subprocess.DEVNULL, timeout=300)
    return None


PLAIN_RECORDING = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>ration</title></head>
<body><p>This ration was built without its pages: {reason}. With Node.js 18 or newer and npm (Debian: apt-get install nodejs npm) build it again: ./dev build.
Until then: ration inspect.</p><script type="application/json" id="recording">/*RECORDING*/</script></body></html>
"""


def byte_lines(packed):
    return ["    " + ",".join(map(str, packed[at : at + 32])) + "," for at in range(0, len(packed), 32)]


def page_source(page):
    packed = gzip.compress(page, compresslevel=9, mtime=0)
    lines = ["// Made by web/embed.py.", '#include "trace/view/recording_page.hpp"', "", "#include <array>", "", "namespace ration::trace {", ""]
    lines += [f"constexpr std::array<std::uint8_t, {len(packed)}> kPage{{", *byte_lines(packed), "};", ""]
    lines += [f"GzippedPage recording_page() noexcept {{ return {{kPage, {len(page)}}}; }}", "", "}  // namespace ration::trace", ""]
    return "\n".join(lines)


def source(files):
    lines = ["// Made by web/embed.py.", '#include "node/http/web_assets.hpp"', "", "#include <array>", "", "namespace ration::node {", "namespace {", ""]
    rows = []
    for number, (name, content) in enumerate(sorted(files.items())):
        packed = gzip.compress(content, compresslevel=9, mtime=0)
        lines.append(f"constexpr std::array<std::uint8_t, {len(packed)}> kBytes{number}{{")
        lines += byte_lines(packed)
        lines += ["};", ""]
        text = '""'
        if name == "index.html":
            text = 'R"ration_page(' + content.decode() + ')ration_page"'
        etag = hashlib.sha256(packed).hexdigest()[:16]
        immutable = "false" if name == "index.html" else "true"
        rows.append(f'    {{"/{name}", "{TYPES[name.rsplit(".", 1)[1]]}", "\\"{etag}\\"", kBytes{number}, {text}, {immutable}}},')
    lines += [f"constexpr std::array<Asset, {len(rows)}> kAssets{{{{", *rows, "}};", "", "}  // namespace", ""]
    lines += ["std::span<const Asset> assets() noexcept { return kAssets; }", "", "}  // namespace ration::node", ""]
    return "\n".join(lines)


def main():
    output, page, work = map(pathlib.Path, sys.argv[1:4])
    node, npm = sys.argv[4:]
    work.mkdir(parents=True, exist_ok=True)
    reason = bundle(work, node, npm)
    if reason:
        files = {"index.html": PLAIN.format(reason=reason).encode(), "recording.html": PLAIN_RECORDING.format(reason=reason).encode()}
    else:
        files = {path.name: path.read_bytes() for path in (work / "dist").iterdir()}
    page.write_text(page_source(files.pop("recording.html")))
    output.write_text(source(files))


main()
