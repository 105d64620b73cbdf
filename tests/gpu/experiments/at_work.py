"""Programs at work under a limit: what it costs, limits that change, waits, kills, suspension by the daemon, and who says what of their memory."""
import glob
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from . import GIB, MIB, Finding, NotPossible, experiment, mib, setting, simulated
from .actor import Actor, installed, ration, run, settled, trace
from .driver import Nvml, piece, total
from .suspension import has_checkpoints, host_memory

OUT_OF_MEMORY = 2
FOLDER = pathlib.Path(__file__).resolve().parent.parent


def beside(program):
    """A program that comes with ration."""
    path = pathlib.Path(setting("ration")).with_name(program)
    if not path.exists():
        raise NotPossible(f"{program} is not beside ration")
    return str(path)


def rows():
    """What `ration ps` says of each workload, by name."""
    told = subprocess.run(ration("ps", "-o", "json"), stdout=subprocess.PIPE, text=True, check=True)
    return {row["workload"]: row for row in json.loads(told.stdout)["data"] if row["governed"]}


def until(condition, seconds, what):
    """Its first value that is one."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise RuntimeError(f"not within {seconds} s: {what}")


def set_limit(name, size):
    done = run(*ration("set", name, "--limit", f"{size // MIB}MiB", "--yes"))
    trace("set", name, mib(size), "->", done.returncode, done.stdout.strip())
    return done.returncode == 0


@experiment(21, "ns a pair of 2 MiB, without and with a limit, by 1 and by 8 threads", "below 1 us more", 90)
def pairs():
    words = [beside("ration-bench"), "pairs"]

    def measured(command):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"ration-bench pairs ended with {done.returncode}")
        return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}

    without, held = measured(words), measured(ration("run", "--limit", f"{min(4 * GIB, total() * 9 // 10) // MIB}MiB", "--", *words))
    names = {"malloc": "cuMemAlloc + Free", "async": "AllocAsync + FreeAsync", "map": "create + map + back"}
    said = [f"{names[kind]}, {threads}: {without[key]:.0f}, {held[key]:.0f}" for key in without for kind, threads in [key.split("-")]]
    return Finding("; ".join(said), all(held[key] - without[key] < 1000 for key in without if key.endswith("-1")))


def trained_meanwhile(limit):
    """A training loop of PyTorch, whose limit changes while it runs; what it said last."""
    name = f"trained-{os.getpid()}"
    with subprocess.Popen(ration("run", "--limit", f"{limit // MIB}MiB", "--name", name, "--", sys.executable, str(FOLDER / "pool.py"), "torch", "own"),
                          stdout=subprocess.PIPE, text=True) as program:
        def taken():
            peak = rows().get(name, {}).get("peak_bytes", 0)
            return peak if peak > 700 * MIB else None
        until(taken, 40, "the training takes memory")
        changes = 0
        while program.poll() is None:
            changes += set_limit(name, limit if changes % 2 else limit // 2)
            time.sleep(0.1)
        return program.wait(), changes, program.stdout.read().strip().splitlines()[-1:]


@experiment(22, "a limit that is changed 40 times while its program works", "the next request is held to it, nothing else happens", 90)
def changed_limits():
    size = piece(GIB)
    with Actor(limit=4 * GIB) as program:
        program.open().ask("allocate", size)
        more = size // 4 // (2 * MIB) * (2 * MIB)
        too_little = program.book()["used"] + more // 2
        wrong = []
        for turn in range(20):
            for limit, expected in ((too_little, OUT_OF_MEMORY), (program.limit, 0)):
                if not set_limit(program.name, limit):
                    wrong.append(f"ration set failed in turn {turn}")
                error = program.error("allocate", more)
                if error == 0:
                    program.ask("free")
                if error != expected:
                    wrong.append(f"turn {turn}, {mib(limit)}: error {error}, not {expected}")
        program.ask("synchronize")
    said = f"40 changes, {len(wrong)} wrong" + (f": {wrong[0]}" if wrong else "")
    if not simulated() and run(sys.executable, "-c", "import torch").returncode == 0:
        code, changes, last = trained_meanwhile(min(8 * GIB, total() * 9 // 10))
        said += f"; a training with PyTorch, {changes} changes: {last[0] if last else f'exit code {code}'}"
        wrong += [] if code == 0 and last and last[0].startswith("ok") else ["the training ended"]
    return Finding(said, not wrong, broken=wrong[0] if wrong else "")


TWO = '"$0" steps "+$1:1s" & first=$!; "$0" steps "+$1:1s"; second=$?; wait $first && exit $second'


@experiment(23, "two processes of one workload that do not fit together", "--on-deny wait: both end well; fail: one is denied", 90)
def waits():
    limit = min(4 * GIB, total() * 9 // 10) // MIB
    codes = {}
    for mode in ("wait:30s", "fail"):
        done = run(*ration("run", "--limit", f"{limit}MiB", "--on-deny", mode, "--", "sh", "-c", TWO, beside("ration-workload"), f"{limit * 6 // 10}MiB"))
        print(mode, done.returncode, done.stdout)
        codes[mode] = done.returncode
    good = codes == {"wait:30s": 0, "fail": 1}
    return Finding("; ".join(f"--on-deny {mode}: exit code {code}" for mode, code in codes.items()), good,
                   broken="" if codes["wait:30s"] == 0 else "a request that fits in the end was denied while it waited")


def ended(pid):
    """Whether that process holds nothing any more. A killed process ends only when the kernel has given its memory back."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@experiment(24, "kill -9 of programs that allocate, 8 at a time, 100 times", "0 bytes left", 150)
def kills():
    rounds, together = 3 if simulated() else 13, 8 if total() >= 16 * 10**9 else 4
    nvml, words = Nvml(), [beside("ration-workload"), "cache", "--steady", "0.2GiB", "--peak", "0.4GiB", "--loops", "1000000", "--quiet"]
    others, before, killed = len(settled(nvml.processes)), settled(nvml.used), []
    for turn in range(rounds):
        names = [f"killed-{os.getpid()}-{turn}-{number}" for number in range(together)]
        programs = [subprocess.Popen(ration("run", "--limit", "2GiB", "--name", name, "--summary", "never", "--", *words)) for name in names]

        def at_work():
            own = [row for name, row in rows().items() if name in names and row["used_bytes"] > 200 * MIB and row["processes"]]
            return own if len(own) == together else None
        for row in until(at_work, 60, "all of them allocate"):
            time.sleep(random.random() / 50)  # at any place in what it does
            for process in row["processes"]:
                os.kill(process["pid"], signal.SIGKILL)
                killed.append(process["pid"])
        for program in programs[::2]:  # `ration run` of every second one, too
            program.kill()
        for program in programs:
            program.wait(30)
    until(lambda: all(map(ended, killed)), 30, "the killed processes have ended")
    left = {name: row["used_bytes"] for name, row in rows().items() if name.startswith(f"killed-{os.getpid()}-")}
    difference = settled(nvml.used) - before
    bytes_left = sum(left.values())
    said = f"{len(killed)} killed; books: {bytes_left} bytes in {len(left)}; NVML: {mib(difference)} more than before"
    alone = others == 0
    return Finding(said + ("" if alone else " (other programs are on the card)"), bytes_left == 0 and (difference < 64 * MIB or not alone),
                   broken=f"{mib(bytes_left)} stay charged to the dead" if bytes_left else "")


class Daemon:
    """One of this user's, for a while: whoever is started meanwhile registers with it."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="ration-gpu-daemon-")
        os.environ["RATION_SOCKET"] = self.folder.name + "/socket"
        self.process = subprocess.Popen(ration("serve", "--socket", os.environ["RATION_SOCKET"], "--state", self.folder.name, "--listen", ""), stdout=sys.stderr)
        until(lambda: run(*ration("ps")).returncode == 0, 20, "the daemon answers")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        del os.environ["RATION_SOCKET"]
        self.folder.cleanup()


def rate(size, seconds):
    return f"{size / seconds / 1e9:.1f} GB/s"


@experiment(25, "two programs that do not fit together take turns: ration suspend and resume; beside it, managed memory", "all memory leaves and comes back, as fast as the host copies", 150, dangerous=True)
def turns():
    if not has_checkpoints():
        raise NotPossible("the driver has none of cuCheckpointProcess…")
    tried = run(*ration("doctor", "--only", "suspend.tried", "--try-suspend"))
    print(tried.stdout)
    nvml = Nvml()
    size = min(piece(16 * GIB, 4), host_memory() // 4 // (2 * MIB) * (2 * MIB))
    seconds = {"suspend": [], "resume": []}
    with Daemon(), Actor(limit=size + GIB) as first, Actor(limit=size + GIB) as second, Actor() as filler:
        for program in (first, second, filler):
            program.open()
        first.ask("allocate", size)
        first.ask("mark")
        room = nvml.memory().free
        if room > size:  # the other one does not fit
            filler.ask("allocate", (room - size // 2) // (2 * MIB) * (2 * MIB))
        no_room = second.error("allocate", size)

        def moved(verb, program):
            before, start = nvml.used(), time.monotonic()
            done = run(*ration(verb, program.name))
            print(done.stdout)
            if done.returncode != 0:
                raise NotPossible(f"ration {verb}: {done.stdout.strip().splitlines()[0]}")
            until(lambda: abs(before - nvml.used()) >= size, 60, verb)
            seconds[verb].append(time.monotonic() - start)
        moved("suspend", first)
        second.ask("allocate", size)
        second.ask("mark")
        for away, back in ((second, first), (first, second), (second, first)):
            moved("suspend", away)
            moved("resume", back)
        moved("suspend", first)
        moved("resume", second)
        kept = second.ask("marked")
        second.ask("free_all")
        moved("resume", first)
        kept = kept and first.ask("marked")
        filler.ask("free_all")
        paged = filler.ask("paged", size)
    said = [f"{mib(size)}, which {'did not fit beside the other' if no_room == OUT_OF_MEMORY else f'was answered by {no_room}'}"]
    said += [f"{verb} {min(took):.2f} to {max(took):.2f} s ({rate(size, min(took))})" for verb, took in seconds.items()]
    said += ["contents kept" if kept else "CONTENTS LOST", *(f"managed memory {name} {rate(size, took)}" for name, took in paged.items())]
    return Finding("; ".join(said), kept and no_room == OUT_OF_MEMORY, broken="" if kept else "a suspended program lost its memory")


def allocators():
    """Those that can be tried here: how each is called, and why one cannot."""
    for name, module in (("ours", "ration"), ("torch", "torch"), ("cupy", "cupy")):
        yield name, "" if run(sys.executable, "-c", f"import {module}").returncode == 0 else f"n/a ({module} is not here)"


@experiment(26, "the pool, PyTorch's and CuPy's allocators on recorded histories: ns a pair, MiB taken", "no more than theirs", 150)
def recorded_histories():
    histories = sorted(glob.glob(str(pathlib.Path(setting("ration")).parent.parent / "share/ration/traces/*.csv")))
    if not histories:
        raise NotPossible("the recorded histories are not here")
    found, said = {}, []
    for name, why_not in allocators():
        if why_not:
            said.append(f"{name} {why_not}")
            continue
        for history in histories[:1] if simulated() else histories:
            done = run(sys.executable, str(FOLDER / "histories.py"), name, history)
            print(name, history, done.stdout)
            if done.returncode == 0:
                found[name, pathlib.Path(history).stem] = json.loads(done.stdout.splitlines()[-1])
    for (name, history), own in found.items():
        said.append(f"{name}, {history}: {own['ns']:.0f} ns, {mib(own['bytes'])}")
    if not any(name == "ours" for name, _ in found):
        raise NotPossible("the Python package is not here")
    pairs_of = [(own, found["ours", history]) for (name, history), own in found.items() if name != "ours" and ("ours", history) in found]
    return Finding("; ".join(said), all(ours["bytes"] <= own["bytes"] * 1.02 and ours["ns"] <= own["ns"] * 1.1 for own, ours in pairs_of))


def by_nvidia_smi(pid):
    """Bytes of a process; None: it does not say."""
    done = run("nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
    listed = dict(line.split(", ") for line in done.stdout.splitlines() if line.count(", ") == 1)
    return int(listed[str(pid)]) * MIB if listed.get(str(pid), "").isdigit() else None


@experiment(27, "1 GiB by the book, NVML, cuMemGetInfo and nvidia-smi", "within 2 % of each other", 60)
def who_is_right():
    nvml, size = Nvml(), piece(GIB)
    with Actor() as bare, Actor(limit=4 * GIB) as program:
        bare.open()
        nothing, free = settled(nvml.used), bare.ask("info")[0]
        program.open().ask("allocate", size)
        used = settled(nvml.used) - nothing
        told = program.book()
        pids = [process["pid"] for process in rows()[program.name]["processes"]]
        by = {"book": told["used"], "NVML, the process": nvml.of(pids[0]) if pids else None, "NVML, the card": used, "cuMemGetInfo of another": free - bare.ask("info")[0]}
        if installed("nvidia-smi") and pids:
            by["nvidia-smi"] = by_nvidia_smi(pids[0])
    known = [value for value in by.values() if value is not None]
    return Finding("; ".join(f"{who} {mib(value)}" for who, value in by.items()) + f"; context {mib(told['context'])} in the book, {mib(told.get('unexplained'))} not explained",
                   max(known) - min(known) <= max(known) // 50)
