#!/usr/bin/env python3
"""In rooms that are compiled several files at a time (UNITY in their CMakeLists.txt), no function of one file alone has the name of a function that a
header declares in the same namespace or one around it: a call in another file could reach the local function in place of the declared one, without a
word of the compiler. And no two headers define a type of one name in one namespace: the linker would keep the functions of one for both. Part of
`./dev lint`."""
import collections
import pathlib
import re
import sys

NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)
LOCAL = re.compile(r"^namespace \{\n(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"^(?:\[\[nodiscard\]\] )?[A-Za-z][\w:<>,&* ]*?[ &*>](\w+)\(", re.MULTILINE)  # what clang-format puts at the margin

TYPE = re.compile(r"^(?:struct|class|enum class) (\w+)(?: final)?(?: : [^;{]*)? \{", re.MULTILINE)


def declared(root):
    """Headers by namespace and by name of function."""
    functions = collections.defaultdict(dict)
    for header in sorted([*root.glob("src/**/*.hpp"), *root.glob("libration/**/*.hpp")]):
        text = header.read_text()
        if namespace := NAMESPACE.search(text):
            functions[namespace[1]].update({name: header for name in FUNCTION.findall(text)})
    return functions


def compiled_together(root):
    """Files of the rooms whose CMakeLists.txt says so; a room below one has its own."""
    rooms = {description.parent: " UNITY " in description.read_text() for description in root.glob("src/**/CMakeLists.txt")}
    for file in sorted(root.glob("src/**/*.cpp")):
        if rooms[next(folder for folder in file.parents if folder in rooms)]:
            yield file


def hiding(root):
    functions = declared(root)
    for file in compiled_together(root):
        text = file.read_text()
        namespace = NAMESPACE.search(text)
        for part in LOCAL.findall(text) if namespace else ():
            around = ["::".join(namespace[1].split("::")[:depth]) for depth in range(1, namespace[1].count("::") + 2)]
            for name in FUNCTION.findall(part):
                for header in (functions[each][name] for each in around if name in functions[each]):
                    yield f"{file.relative_to(root)}: {name}() has the name of a function of {header.relative_to(root)}: give it another"


def defined_twice(root):
    first = {}
    for header in sorted([*root.glob("src/**/*.hpp"), *root.glob("libration/**/*.hpp")]):
        text = header.read_text()
        for name in TYPE.findall(text) if (namespace := NAMESPACE.search(text)) else ():
            other = first.setdefault((namespace[1], name), header)
            if other != header:
                yield f"{header.relative_to(root)}: {name} has the name of a type of {other.relative_to(root)}: give it another"


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = [*hiding(root), *defined_twice(root)]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))
