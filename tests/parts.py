#!/usr/bin/env python3
"""The parts of `./dev test`, and what each reads: a part that has passed with all of that as it is now is left out. `build/passed` remembers, so a fresh clone runs
everything.

    parts.py due PART... <COMMAND    prints those that have to run, names the others on stderr; COMMAND is the text of what runs them
    parts.py passed PART...          notes that they have passed with what they read when `due` was asked
    parts.py tests                   prints the folders of tests: each is a part, and the label of its tests in ctest
    parts.py of PATH...              prints the parts that read any of these paths
"""
import functools
import hashlib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# What every program and library is compiled from. The dashboard is compiled into the daemon, and read by its own tests.
COMPILED = "CMakeLists.txt CMakePresets.json VERSION cmake libration/include libration/pool libration/runtime sim src tests/CMakeLists.txt"
# What Python programs under ration, installed files and pages are made of.
SERVED = "libration/python share web"
HELPERS = "tests/system/waiting.py tests/system/node_client.py tests/system/book_layout.py tests/system/own_machine.py tests/unit/case_limit.cpp tests/unit/stopped_at.hpp tests/unit/temporary.hpp"
PAGES = "docs README.md README.zh.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md DECISIONS.md examples/README.md libration/python/README.md sim/README.md tests/gpu/README.md " \
    "share/ration/scenarios/README.md share/ration/traces/README.md"

# A folder of tests reads what is compiled, what tests share, and itself; these read more.
TESTS = {
    "examples": "libration/python",
    "tests/abi": "build/wheels build/wheels12 build/wheels-by-release",
    "tests/gpu": "build/dist",
    "tests/nvidia": "libration/python tests/system/limits tests/system/containers build/nvidia build/nvidia-toolkit build/nvidia-exporter build/nvidia-clients/bin build/docker/usr/bin",
    "tests/system/command_line": "libration/python share packaging/debian",
    "tests/system/containers": "share packaging build/docker/usr/bin build/dist",
    "tests/system/contract": "share docs/metrics.md docs/stability.md libration/python tests/data build/openapi/bin build/prometheus/usr/bin",
    "tests/system/dashboard": "share web docs/zh docs/glossary.md docs/site.py README.zh.md",
    "tests/system/docs": f"{PAGES} share libration/python examples packaging",
    "tests/system/limits": "tests/system/sim",
    "tests/system/manifests": "share build/helm build/kubernetes/cluster",
    "tests/system/monitoring": "share docs/metrics.md tests/system/limits build/prometheus/usr/bin",
    "tests/system/node": "libration/python share tests/data tests/system/sim",
    "tests/system/package": f"{SERVED} packaging examples docs/scenarios/slurm.md docs/SECURITY.md dev tests/system/command_line build/dist",
    "tests/system/packing": "bench/packing share/ration/traces docs/packing.md",
    "tests/system/parts": "dev tests/parts.py",
    "tests/system/python": "libration/python examples/ci build/types/bin",
    "tests/system/recording": "tests/system/limits share/ration/traces",
    "tests/system/scenarios": "share libration/python",
    "tests/system/top": "share",
    "tests/system/upgrade": "share tests/data",
    "tests/system/words": f"{PAGES} libration share examples web/src/text",
    "tests/unit/config": "share/ration/schema",
    "tests/unit/trace": "share/ration/traces",
    "tests/unit/whatif": "share/ration/traces",
    "tests/unit/web": "web",
}
# What runs beside ctest reads this alone. `lint` runs every time.
OTHERS = {
    "lint": "ARCHITECTURE.md CONTRIBUTING.md .clang-format tests/lint tests/parts.py dev",
    "packages": f"{COMPILED} {SERVED} packaging examples docs/site.py docs/terminal.py docs/mkdocs.yml docs/scenarios/slurm.md tests/gpu LICENSE",
    "site": f"{PAGES}",
    "kubernetes-adapter": "kubernetes",
    "frameworks": f"{COMPILED} libration/python tests/frameworks examples/articles tests/system/docs/docs_test.py"
    " docs/scenarios/leak.md docs/scenarios/two-servers.md docs/scenarios/smaller-card.md docs/scenarios/where-is-the-rest.md",
    "engines": f"{COMPILED} {SERVED} tests/engines {HELPERS} docs/scenarios/notebooks.md docs/scenarios/ray.md docs/scenarios/serving.md",
    "exports": f"{COMPILED} share/ration/traces tests/exports tests/engines/browser.py tests/engines/engine_case.py {HELPERS} build/readers",
    "kubernetes": f"{COMPILED} share kubernetes packaging tests/engines {HELPERS} build/helm build/kubernetes build/kubernetes/cluster build/dist",
    "slurm": f"{COMPILED} share packaging tests/engines {HELPERS} build/slurm build/dist",
    "asan": f"{COMPILED} tests/unit tests/fuzz share/ration/schema",
    "tsan": f"{COMPILED} tests/unit tests/fuzz tests/system/sim tests/system/sim_graphs",
    "fuzz": f"{COMPILED} tests/unit tests/fuzz",
}
# Tracked, and read by no part: `./dev bench` runs the first (each build compiles it), `./dev release` the second.
UNREAD = tuple("bench tests/roots .ci .gitignore kubernetes/README.md web/README.md tests/data/README.md".split())


def test_folders():
    """The folders whose CMakeLists.txt adds tests."""
    found = [ROOT / "examples", *(file.parent for pattern in ("*", "unit/*", "system/*") for file in (ROOT / "tests").glob(pattern + "/CMakeLists.txt"))]
    return sorted(str(folder.relative_to(ROOT)) for folder in found)


def reads(part):
    """The paths that `part` reads: files, folders with all that is in them, and of what a build has downloaded (build/…) the names alone."""
    if part in OTHERS:
        return tuple(OTHERS[part].split())
    return (*COMPILED.split(), *HELPERS.split(), part, *TESTS.get(part, "").split())


@functools.cache
def folders(places):
    return tuple(place + "/" for place in places)


def within(path, places):
    """Whether one of the places is the path or a folder around it. Nobody compiles a README.md: it has to be named."""
    return (path.startswith(folders(places)) and not path.endswith("/README.md")) or path in places


@functools.cache
def listed():
    """Every file that git would commit."""
    done = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(path for path in set(done.stdout.split("\0")) - {""} if (ROOT / path).is_file())


@functools.cache
def fingerprint(path):
    file = ROOT / path
    return f"{path} {file.stat().st_mode & 0o111:o} {hashlib.sha256(file.read_bytes()).hexdigest()}"


@functools.cache
def tools():
    """What compiles and interprets, each with its version."""
    versions = []
    for command in ([os.environ.get("CXX", "c++"), "--version"], ["clang++-14", "--version"], ["cmake", "--version"], [sys.executable, "--version"],
                    ["ldd", "--version"], ["node", "--version"], ["go", "version"]):
        try:
            versions.append(subprocess.run(command, capture_output=True, text=True).stdout.partition("\n")[0])
        except OSError:
            versions.append(f"no {command[0]}")
    return versions


def state(part, command):
    """What `part` would be run with now, as one word."""
    places = reads(part)
    made = [f"{place}/{name}" for place in places if place.startswith("build/") and (ROOT / place).is_dir() for name in sorted(os.listdir(ROOT / place))]
    files = [fingerprint(path) for path in listed() if within(path, places)]
    return hashlib.sha256("\n".join([command, str(os.getuid()), *tools(), *made, *files]).encode()).hexdigest()


def due(parts, command):
    passed, left_out = ROOT / "build/passed", []
    passed.mkdir(parents=True, exist_ok=True)
    for part in parts:
        mark, now = passed / part.replace("/", "+"), state(part, command)
        if mark.exists() and mark.read_text() == now:
            left_out.append(part)
        else:
            mark.with_name(mark.name + ".due").write_text(now)
            print(part)
    if left_out:
        print(f"left out, passed with these sources: {', '.join(left_out)} (rm -r build/passed runs everything)", file=sys.stderr)


def note_passed(parts):
    for part in parts:
        mark = ROOT / "build/passed" / part.replace("/", "+")
        mark.with_name(mark.name + ".due").replace(mark)


def readers(path):
    return [part for part in [*OTHERS, *test_folders()] if within(path, reads(part))]


if __name__ == "__main__":
    what, *words = sys.argv[1:] or ["help"]
    if what == "due":
        due(words, sys.stdin.read())
    elif what == "passed":
        note_passed(words)
    elif what == "tests":
        print("\n".join(test_folders()))
    elif what == "of":
        print("\n".join(part for part in [*OTHERS, *test_folders()] if any(part in readers(path) for path in words)))
    else:
        sys.exit(__doc__)
