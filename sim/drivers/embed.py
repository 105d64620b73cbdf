#!/usr/bin/env python3
"""Writes the drivers' profiles as entries of an array {name, text}: embed.py OUTPUT FILE.toml…"""
import pathlib
import sys

output, *profiles = map(pathlib.Path, sys.argv[1:])
output.write_text("".join(f'{{"{path.stem}", R"profile({path.read_text()})profile"}},\n' for path in sorted(profiles)))
