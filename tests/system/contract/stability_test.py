#!/usr/bin/env python3
"""What programs may rely on from one version to the next (docs/stability.md): every name in tests/data/stable_names.txt still exists and means the same.

`stability_test.py --write` adds the names that are new. A name is taken out of the file by hand, in a version that may remove it, with a line in CHANGELOG.md."""
import ast
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["SOURCE"])
BIN = pathlib.Path(os.environ["BUILD_BIN"])
NAMES = SOURCE / "tests/data/stable_names.txt"


def fields(schema, path=""):
    """Every field that a JSON schema describes, as (path, types)."""
    if not isinstance(schema, dict):
        return
    for choice in ("oneOf", "anyOf", "allOf"):
        for part in schema.get(choice, []):
            yield from fields(part, path)
    if "items" in schema:
        yield from fields(schema["items"], path + "[]")
    for name, part in schema.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        yield below, types(part)
        yield from fields(part, below)


def types(schema):
    """The JSON types that a schema allows."""
    if "type" in schema:
        return set(schema["type"]) if isinstance(schema["type"], list) else {schema["type"]}
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if values:
        return {{str: "string", bool: "boolean", int: "integer", type(None): "null"}[type(value)] for value in values}
    return set().union(*(types(part) for choice in ("oneOf", "anyOf") for part in schema.get(choice, [])))


def json_names():
    for path in sorted((SOURCE / "share/ration/schema").glob("*.json")):
        found = {}
        for field, allowed in fields(json.loads(path.read_text())):
            found.setdefault(field, set()).update(allowed)
        for field, allowed in found.items():
            yield f"json {path.stem} {field} {'|'.join(sorted(allowed)) or 'any'}"


def http_names():
    for path, methods in json.loads((SOURCE / "share/ration/openapi.json").read_text())["paths"].items():
        yield from (f"http {method.upper()} {path}" for method in methods if method in ("get", "post", "put", "patch", "delete"))


def metric_names():
    for name, kind, labels in re.findall(r"^\| `(ration_\w+)` \| (\w+) \| ([^|]*) \|", (SOURCE / "docs/metrics.md").read_text(), re.M):
        yield f"metric {name} {kind} {' '.join(sorted(labels.replace('-', '').split()))}".rstrip()


def error_names():
    yield from (f"error {number}" for number in re.findall(r'^      \{"(E\d{4})"', (SOURCE / "src/cli/text/error_summaries.cpp").read_text(), re.M))


def c_names():
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", (SOURCE / "libration/include/ration/ration.h").read_text(), flags=re.S)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    for members, name in re.findall(r"typedef (?:struct|enum) \w+ \{([^}]*)\} (\w+);", text):
        yield "layout " + " ".join([name, *members.split()])
    for declared in re.findall(r"([\w\s*]+?\bration_\w+\s*\([^;{]*\))\s*;", re.sub(r"typedef[^;{]*\{[^}]*\}[^;]*;", "", text)):
        yield "c " + " ".join(declared.split())


def python_names():
    """The names of `import ration` and of the modules for frameworks, functions with their parameters."""
    package = SOURCE / "libration/python/ration"
    init = ast.parse((package / "__init__.py").read_text())
    (exported,) = [ast.literal_eval(node.value) for node in init.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"]
    origin = {name.asname or name.name: node.module for node in init.body if isinstance(node, ast.ImportFrom) for name in node.names}
    for name in exported:
        home = package / f"{origin.get(name) or '__init__'}.py"
        yield f"python ration.{name}" + (parameters(home, name) if home.exists() else "")
    for module in ("torch", "jax", "keras", "ray"):
        for node in ast.parse((package / f"{module}.py").read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                yield f"python ration.{module}.{node.name}" + parameters(package / f"{module}.py", node.name)


def parameters(file, name):
    """` (a, b=)` for a function or for the constructor of a class, `=` where there is a default; empty for anything else."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            node = next((below for below in node.body if isinstance(below, ast.FunctionDef) and below.name == "__init__"), None)
        if isinstance(node, ast.FunctionDef) and node.name in (name, "__init__"):
            plain = [*node.args.posonlyargs, *node.args.args]
            defaults = [None] * (len(plain) - len(node.args.defaults)) + node.args.defaults
            given = [(argument.arg, default) for argument, default in [*zip(plain, defaults), *zip(node.args.kwonlyargs, node.args.kw_defaults)] if argument.arg != "self"]
            return f" ({', '.join(name + ('=' if default is not None else '') for name, default in given)})"
    return ""


def offered(*words):
    """What the command line offers for the last word."""
    said = subprocess.run([BIN / "ration", "candidates", "--", *words], capture_output=True, text=True)
    return [line.split("\t")[0] for line in said.stdout.splitlines()]


def command_names():
    for verb in offered(""):
        yield f"verb {verb}"
        yield from (f"option {verb} {option}" for option in offered(verb, "--"))


def help_names():
    """Exit codes and variables, as the help lists them."""
    for kind, topic, pattern in (("exit", "exit-codes", r"^  (\d+) "), ("variable", "env", r"^  (RATION_\w+)$")):
        said = subprocess.run([BIN / "ration", "help", topic], capture_output=True, text=True, check=True).stdout
        yield from (f"{kind} {name}" for name in re.findall(pattern, said, re.M))


def names():
    """Every name, with what must stay the same about it."""
    found = {}
    for make in (command_names, help_names, json_names, http_names, metric_names, error_names, c_names, python_names):
        rows = [split(line) for line in make()]
        assert rows, f"{make.__name__} finds nothing"
        found.update(rows)
    return found


def split(line):
    """A line of the file as (name, what must stay the same)."""
    kind, *words = line.split(" ")
    of_name = {"json": 2, "metric": 1, "python": 1, "c": 0, "option": 2, "http": 2}.get(kind, 1)
    if kind == "c":
        function = re.search(r"ration_\w+(?= *\()", line)
        return f"c {function[0]}", " ".join(words)
    return " ".join([kind, *words[:of_name]]), " ".join(words[of_name:])


def still_holds(name, before, now):
    """Whether a program that was written for `before` works with `now`."""
    if name.startswith("json configuration "):  # what people write
        return set(before.split("|")) <= set(now.split("|"))
    if name.startswith("json "):  # a reader that handles every type of before also handles fewer
        return set(now.split("|")) <= set(before.split("|"))
    if name.startswith("python ") and before and now:  # new parameters come last, and have a default
        old, new = ([each for each in text.strip("()").split(", ") if each] for text in (before, now))
        return new[:len(old)] == old and all(each.endswith("=") for each in new[len(old):])
    return now == before


def read():
    return dict(split(line) for line in NAMES.read_text().splitlines() if not line.startswith("#"))


class Stability(unittest.TestCase):
    def test_every_name_is_still_there_and_means_the_same(self):
        now = names()
        gone = [f"{name} is gone" for name in read() if name not in now]
        other = [f"{name} was {before!r} and is {now[name]!r}" for name, before in read().items() if name in now and not still_holds(name, before, now[name])]
        self.assertEqual(gone + other, [])

    def test_every_new_name_is_written_down(self):
        self.assertEqual([name for name in names() if name not in read()], [], "a new name is a promise: tests/system/contract/stability_test.py --write")

    def test_the_page_names_every_kind(self):
        page = (SOURCE / "docs/stability.md").read_text()
        for kind in {name.split(" ")[0] for name in read()}:
            self.assertIn(f"`{kind}`", page)

    def test_what_would_break_a_program_is_found(self):
        for name, before, now in (("json ps data[].x", "integer", "integer|null"), ("json ps data[].x", "integer", "string"), ("metric m", "gauge gpu", "gauge gpu tenant"),
                                  ("python ration.f", "(a, b)", "(b, a)"), ("python ration.f", "(a, b)", "(a)"), ("python ration.f", "(a, host=)", "(a, host_limit=)"),
                                  ("python ration.f", "(a)", "(a, b)"), ("python ration.f", "", "(a)"), ("json configuration tenant[].x", "array|string", "string"), ("c ration_f", "int ration_f(int a)", "int ration_f(long a)")):
            self.assertFalse(still_holds(name, before, now), (name, before, now))
        for name, before, now in (("json ps data[].x", "integer|null", "integer"), ("python ration.f", "(a, b=)", "(a, b=, c=)"), ("json configuration tenant[].x", "string", "array|string"), ("verb run", "", "")):
            self.assertTrue(still_holds(name, before, now), (name, before, now))


def holds_all(before, now):
    """Whether `now` has everything of `before`: fields may have been added."""
    if isinstance(before, dict):
        return isinstance(now, dict) and all(name in now and holds_all(value, now[name]) for name, value in before.items())
    if isinstance(before, list):
        return isinstance(now, list) and len(now) == len(before) and all(map(holds_all, before, now))
    return now == before


class Recordings(unittest.TestCase):
    def test_a_recording_of_every_format_is_read(self):
        kept = sorted((SOURCE / "tests/data/recordings").glob("*.rec"))
        self.assertTrue(kept)
        for recording in kept:
            said = subprocess.run([BIN / "ration", "inspect", "-o", "json", recording], capture_output=True, text=True, check=True).stdout
            self.assertTrue(holds_all(json.loads(recording.with_suffix(".json").read_text()), json.loads(said)["data"]), recording.name)
            subprocess.run([BIN / "ration", "whatif", recording], capture_output=True, check=True)


def write():
    known = read() if NAMES.exists() else {}
    rows = {**names(), **known}
    NAMES.write_text("# Names that programs use, and what stays the same about each (docs/stability.md). stability_test.py --write adds to them.\n" +
                     "".join(f"{of_line(name, same)}\n" for name, same in sorted(rows.items())))


def of_line(name, same):
    return f"c {same}" if name.startswith("c ") else f"{name} {same}".rstrip()


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        unittest.main(verbosity=2)
