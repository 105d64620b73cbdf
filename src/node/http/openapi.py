#!/usr/bin/env python3
"""Makes one document of share/ration/openapi.json and the schemas that it refers to: openapi.py VERSION SOURCE.json OUTPUT.json OUTPUT.cpp"""
import gzip
import json
import pathlib
import sys


def bundle(source, version):
    """Turns each reference to a file (`schema/ps.json#/oneOf/0`) into one to a component of this document."""
    document = json.loads(source.read_text())
    document["info"]["version"] = version
    schemas = document["components"].setdefault("schemas", {})

    def component(reference):
        name, _, pointer = reference.partition("#")
        schema = json.loads((source.parent / name).read_text())
        # $schema and $id belong to a whole file, but the schema is now a part of another file.
        schema.pop("$schema"), schema.pop("$id")
        title = schema["title"]
        for step in pointer.split("/")[1:]:
            schema = schema[int(step)] if isinstance(schema, list) else schema[step]
        key = pathlib.PurePath(name).stem
        schema = {"title": title, **schema}
        if schemas.setdefault(key, schema) != schema:
            raise SystemExit(f"{source}: two parts of {name} are referred to")
        return "#/components/schemas/" + key

    def visit(value):
        if isinstance(value, list):
            for each in value:
                visit(each)
        elif isinstance(value, dict):
            if isinstance(value.get("$ref"), str) and not value["$ref"].startswith("#"):
                value["$ref"] = component(value["$ref"])
            for each in list(value.values()):
                visit(each)

    visit(document["paths"])
    visit(document["components"]["responses"])
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


def cpp(text):
    packed = gzip.compress(text.encode(), compresslevel=9, mtime=0)
    lines = ["// Made by src/node/http/openapi.py.", '#include "node/http/openapi.hpp"', "", "namespace ration::node {", "namespace {", ""]
    lines.append("constexpr unsigned char kBytes[] = {")
    lines += ["    " + ",".join(map(str, packed[at : at + 32])) + "," for at in range(0, len(packed), 32)]
    lines += ["};", "", "}  // namespace", "", "std::string_view openapi_gzip() noexcept {"]
    lines += ["  return {reinterpret_cast<const char*>(kBytes), sizeof kBytes};", "}", "", "}  // namespace ration::node", ""]
    return "\n".join(lines)


def main():
    version, source, as_json, as_cpp = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
    document = bundle(source, version)
    as_json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    as_cpp.write_text(cpp(json.dumps(document, separators=(",", ":"), ensure_ascii=False)))


if __name__ == "__main__":
    main()
