#!/usr/bin/env python3
"""Turns driver_api.tsv and nvml_api.tsv into the lists that the guard and the simulator compile."""
import pathlib
import sys


def rows(path):
    for line in pathlib.Path(path).read_text().splitlines():
        if line and not line.startswith("#"):
            yield line.split("\t")


def main(source, target, macro):
    lines = [f"{macro}({index}, {', '.join(row)})\n" for index, row in enumerate(rows(source))]
    pathlib.Path(target).write_text("".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
