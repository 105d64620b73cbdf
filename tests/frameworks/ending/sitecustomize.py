"""PyTorch's threads may still hold Python objects when a program ends, and then abort it. A program of a page ends once they wait for work."""
import atexit
import pathlib
import time


def is_waiting(thread):
    try:
        return not (thread / "comm").read_text().startswith("pt_autograd") or (thread / "stat").read_text().rpartition(")")[2].split()[0] == "S"
    except OSError:
        return True


def wait():
    quiet, deadline = 0, time.monotonic() + 10
    while quiet < 5 and time.monotonic() < deadline:
        time.sleep(0.01)  # without Python's lock, which these threads need
        quiet = quiet + 1 if all(map(is_waiting, pathlib.Path("/proc/self/task").iterdir())) else 0


atexit.register(wait)
