"""A process that does what it is told: lines of JSON `[method of Gpu, arguments…]`, each answered by one line. A word with a
point is a function of a module here, which is given the Gpu first.

`Actor`, for experiments, starts one: with or without a limit, behind other programs, as one of several.
"""
import contextlib
import functools
import importlib
import json
import os
import select
import shutil
import subprocess
import sys
import time

from . import MIB, driver, setting, simulated

def trace(*words):
    """For whoever reads how a finding came about. Not on standard output: an actor answers there."""
    print(*words, file=sys.stderr, flush=True)


class Ended(Exception):
    """An actor that answers no more. `killed_under_limit`: it was held to a limit, and is gone."""

    def __init__(self, what, killed_under_limit=False):
        super().__init__(what)
        self.killed_under_limit = killed_under_limit


def ration(*arguments):
    """The words of a call of ration, on the simulated node where that is what is examined."""
    verb, *rest = arguments
    return [setting("ration"), verb, *([f"--sim={setting('sim')}"] if simulated() else []), *map(str, rest)]


def installed(program):
    """Its path; None: it is not there. CUDA's own programs are often beside the path."""
    return shutil.which(program) or shutil.which(program, path="/usr/local/cuda/bin")


def run(*words, **options):
    """One that ends by itself: its exit code and what it wrote."""
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def book(name):
    """What the book of a workload says, and the driver beside it: bytes by row of `ration explain`, `used` and `driver`."""
    done = subprocess.run(ration("explain", name, "-o", "json"), stdout=subprocess.PIPE, text=True)
    trace("explain", name, done.stdout.strip())
    data = json.loads(done.stdout)["data"][0]
    return {**{row["id"]: row["bytes"] for row in data["rows"]}, "used": data["used_bytes"], "driver": data["driver_bytes"]}


class Actor:
    count = 0
    PATIENCE = 60  # seconds for an answer

    """`limit`: bytes that it is held to, or most of the card where that has less."""

    def __init__(self, limit=None, launcher=(), run_options=(), environment=None, descriptors=(), command=None):
        Actor.count += 1
        self.limited = limit is not None
        self.name = f"experiment-{os.getpid()}-{Actor.count}"
        words = [*launcher, *(command or [sys.executable, "-m", "experiments.actor"])]
        if limit is not None:
            self.limit = min(limit, driver.total() * 9 // 10) // MIB * MIB
            words = ration("run", "--limit", f"{self.limit // MIB}MiB", "--name", self.name, *run_options, "--", *words)
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=descriptors,
                                        env={**os.environ, **(environment or {})})

    def tell(self, *words):
        try:
            self.process.stdin.write(json.dumps(words) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.ended()

    def ended(self):
        code = self.process.wait(self.PATIENCE)
        by_signal = code < 0 or code > 128
        return Ended(f"the program ended {f'by signal {code & 127 if code > 0 else -code}' if by_signal else f'with exit code {code}'}", by_signal and self.limited)

    def answer(self):
        if not select.select([self.process.stdout], [], [], self.PATIENCE)[0]:
            raise Ended(f"the program does not answer for {self.PATIENCE} s")
        line = self.process.stdout.readline()
        if not line:
            raise self.ended()
        said = json.loads(line)
        if "number" in said:
            raise driver.CallFailed(said["function"], said["number"])
        if "error" in said:
            raise RuntimeError(said["error"])
        return said["value"]

    def ask(self, *words):
        self.tell(*words)
        value = self.answer()
        trace(f"{self.name}: {' '.join(map(str, words))[:120]} -> {value}")
        return value

    def error(self, *words):
        """The driver's error of that; 0: it worked."""
        try:
            self.ask(*words)
            return 0
        except driver.CallFailed as failed:
            trace(f"{self.name}: {' '.join(map(str, words))[:120]} failed: {failed}")
            return failed.number

    def open(self):
        self.ask("open")
        return self

    def book(self):
        return book(self.name)

    def kill(self):
        """What `ration run` has started is another process, to which it passes the softer signal on. One that hangs in the kernel stays."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        for stop in (self.process.terminate, self.process.kill) if self.limited else (self.process.kill,):
            stop()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
                break
        else:
            trace(f"{self.name}: pid {self.process.pid} cannot be killed")
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def settled(read, tries=20, pause=0.05):
    """What `read` says once it says it twice: a driver gives memory back, and NVML learns of it, a little later."""
    last = read()
    for _ in range(tries):
        time.sleep(pause)
        now = read()
        if now == last:
            break
        last = now
    return last


def main():
    gpu = driver.Gpu()
    for line in sys.stdin:
        word, *arguments = json.loads(line)
        try:
            module, _, function = word.rpartition(".")
            call = functools.partial(getattr(importlib.import_module("experiments." + module), function), gpu) if module else getattr(gpu, word)
            value = call(*arguments)
            said = {"value": None if value is gpu else value}
        except driver.CallFailed as failed:
            said = {"function": failed.function, "number": failed.number}
        except Exception as error:  # told, and the next command is awaited
            said = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
