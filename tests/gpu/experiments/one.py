"""One experiment, in a process of its own: `python3 -m experiments.one NUMBER RESULT.json [MODULE]`. Writes what it found there; what it
prints is for whoever wants to see how."""
import dataclasses
import json
import sys

from . import Finding, NotPossible, TABLE, load_all
from .actor import Ended


def main(number, result, also=None):
    load_all(also)
    try:
        outcome = dataclasses.asdict(TABLE[int(number)].run())
    except Ended as end:
        if not end.killed_under_limit:
            raise
        outcome = dataclasses.asdict(Finding(str(end), False, broken="a program under a limit was killed"))
    except NotPossible as reason:
        outcome = {"not_possible": str(reason)}
    print(json.dumps(outcome), flush=True)
    with open(result, "w") as file:
        json.dump(outcome, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
