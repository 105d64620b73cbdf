#!/usr/bin/env python3
"""Prints a linker's version script with the names that a release of the driver has: names.py PROFILE.toml API.tsv

A name whose line says no version of CUDA is in every release.
"""
import pathlib
import sys
import tomllib

profile, table = map(pathlib.Path, sys.argv[1:])
major, minor = map(int, tomllib.loads(profile.read_text())["cuda"].split("."))
lines = [line for line in table.read_text().splitlines() if line and not line.startswith("#")]
columns = next(line for line in table.read_text().splitlines()).removeprefix("# ").split("\t")
since = columns.index("since version") if "since version" in columns else None
names = [line.split("\t")[0] for line in lines if since is None or int(line.split("\t")[since]) <= 1000 * major + 10 * minor]
if table.name == "nvml_api.tsv":
    names.append("nvmlErrorString")  # not in the table, since it returns a text
print("{ global: " + " ".join(f"{name};" for name in names) + " local: *; };")
