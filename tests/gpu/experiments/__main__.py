"""Runs the experiments, prints a line of the table for each, and writes what was measured as a driver's profile.

Each runs in a session of its own and is killed with all that it started when its time is over; then the next one follows. Exit code: 0,
or 1 where a promise of ration does not hold here. That a driver does otherwise than expected is a finding, no failure.
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from . import TABLE, load_all, profile


def sessions_processes(session):
    """The processes of that session; what a program put into a group of its own is among them."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getsid(int(entry.name)) == session:
                yield int(entry.name)
        except ProcessLookupError:
            pass


def kill_session(session):
    for pid in list(sessions_processes(session)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def run_one(experiment, options, seconds):
    """What it found, and in which way it ended: `("", outcome)`, `("HANG", …)` or `("FAIL", …)`."""
    raw, result = (options.out / f"{experiment.number:02}{suffix}" for suffix in (".txt", ".json"))
    result.unlink(missing_ok=True)
    words = [sys.executable, "-m", "experiments.one", str(experiment.number), str(result), *([options.also] if options.also else [])]
    with open(raw, "w") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        kill_session(process.pid)
        if code is None:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                return "HANG", f"no end in {seconds:.0f} s, and it cannot be killed (see {raw.name})"
            return "HANG", f"no end in {seconds:.0f} s; killed (see {raw.name})"
    if code == 0 and result.exists():
        outcome = json.loads(result.read_text())
        result.unlink()
        return "", outcome
    last = (raw.read_text(errors="replace").strip().splitlines() or [""])[-1]
    why = signal.Signals(-code).name if code < 0 else last or f"exit code {code}"
    return "FAIL", f"{why} (see {raw.name})"


def row(*cells):
    print("| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="experiments")
    parser.add_argument("--ration", required=True, help="the program's path")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of what is written")
    parser.add_argument("--sim", default="", help="a simulated node instead of the card")
    parser.add_argument("--only", default="", help="numbers: 1,6,9")
    parser.add_argument("--minutes", type=float, default=8, help="for all of them together")
    parser.add_argument("--also", default="", help="a module with more experiments")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    load_all(options.also)
    end = time.monotonic() + options.minutes * 60
    os.environ.update(RATION_EXPERIMENT_RATION=options.ration, RATION_EXPERIMENT_SIM=options.sim, RATION_EXPERIMENT_OUT=str(options.out.resolve()), CUDA_DEVICE_ORDER="PCI_BUS_ID", PYTHONUNBUFFERED="1")
    if options.sim:
        told = subprocess.run([options.ration, "sim", "env", f"--sim={options.sim}", "--sim-cuda", "none", "-o", "json"], stdout=subprocess.PIPE, check=True)
        os.environ.update(json.loads(told.stdout)["data"]["sets"])
    chosen = {int(number) for number in options.only.split(",")} if options.only else set(TABLE)
    facts, notes, broken = {}, [], False
    for experiment in sorted(TABLE.values(), key=lambda each: (each.dangerous, each.number)):
        if experiment.number not in chosen:
            continue
        left = end - time.monotonic()
        if left < experiment.seconds:
            row(experiment.number, experiment.name, experiment.expected, "", f"not run ({max(0, left):.0f} s are left, it may take {experiment.seconds})")
            continue
        ended, outcome = run_one(experiment, options, experiment.seconds)
        if ended:
            found, verdict = outcome, ended
        elif "not_possible" in outcome:
            found, verdict = "", f"n/a ({outcome['not_possible']})"
        else:
            found, verdict = outcome["found"], "as expected" if outcome["as_expected"] else "differs"
            if outcome["broken"]:
                verdict, broken = f"BROKEN: {outcome['broken']}", True
            facts.update({field: (value, experiment.number) for field, value in outcome["facts"].items()})
            notes += [(note, experiment.number) for note in outcome["notes"]]
        row(experiment.number, experiment.name, experiment.expected, found, verdict)
    path = profile.write(facts, notes, options)
    print(f"\nprofile of this driver: {path}" if path else "\nno profile of this driver: experiment 1 says which release it is", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
