"""Processes of one workload that race for its last bytes. `python3 -m experiments.race FILE LIMIT ROUNDS` is that workload; `race` the
experiment, whose judge stands outside it."""
import mmap
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

from . import GIB, MIB, Finding, experiment, mib, setting, simulated
from .actor import ration
from .at_work import rows
from .driver import OUT_OF_MEMORY, CallFailed, Gpu, Nvml, piece

RACERS = 3
STEP = 2 * MIB


class Rendezvous:
    """A place where a fixed number of processes wait for each other: a file with two 64-bit numbers for each, its meetings and what it tells."""

    def __init__(self, path, members, own):
        with open(path, "r+b") as file:
            self.shared = mmap.mmap(file.fileno(), 16 * members)
        self.members, self.own, self.meetings = members, own, 0

    @staticmethod
    def make(path, members):
        pathlib.Path(path).write_bytes(bytes(16 * members))

    def meet(self, number=None):
        """Tells the others a number, else leaves what it told last, and waits until all have come as often; what each told."""
        self.meetings += 1
        if number is not None:
            struct.pack_into("<q", self.shared, 16 * self.own + 8, number)
        struct.pack_into("<q", self.shared, 16 * self.own, self.meetings)
        parent = os.getppid()
        while True:
            read = struct.unpack(f"<{2 * self.members}q", self.shared)
            if min(read[::2]) >= self.meetings:
                return read[1::2]
            if os.getppid() != parent:
                raise SystemExit("the others are gone")
            os.sched_yield()


def racer(path, own, rounds):
    """In each round asks for some of what is left, tells how much it got, and gives it back when the judge has looked."""
    gpu, place, chance = Gpu().open(), Rendezvous(path, RACERS + 1, own), random.Random(own)
    place.meet(os.getpid())
    room = place.meet()[RACERS]
    for _ in range(rounds):
        size = chance.randrange(1, room // STEP + 1) * STEP
        place.meet()
        try:
            gpu.allocate(size)
            granted = size
        except CallFailed as failed:
            if failed.number != OUT_OF_MEMORY:
                raise
            granted = 0
        place.meet(granted)
        place.meet()  # the judge has looked
        if granted:
            gpu.free()
        place.meet()


@experiment(30, "three processes of one workload race for its last bytes, 10,000 rounds", "0 over the limit by the driver's own figure, and never all denied", 120)
def race():
    nvml, rounds, room = Nvml(), 200 if simulated() else 10000, piece(GIB)
    over_book, over_driver, all_denied, granted_to, most = 0, 0, 0, [0, 0, 0, 0], 0
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/rendezvous"
        Rendezvous.make(path, RACERS + 1)
        name = f"race-{os.getpid()}"
        with subprocess.Popen(ration("run", "--limit", f"{(room + 4 * GIB) // MIB}MiB", "--name", name, "--", sys.executable, "-m", "experiments.race", path, rounds)) as workload:
            judge = Rendezvous(path, RACERS + 1, RACERS)
            pids = [str(pid) for pid in judge.meet()[:RACERS]]
            # Their contexts leave what they may race for; a limit of exactly so much more is set now.
            limit = (rows()[name]["used_bytes"] // MIB + 1) * MIB + room
            subprocess.run(ration("set", name, "--limit", f"{limit // MIB}MiB", "--yes"), check=True, stdout=sys.stderr)
            before = held(nvml, pids)
            judge.meet(room)
            for _ in range(rounds):
                judge.meet()
                granted = judge.meet()[:RACERS]
                taken = sum(granted)
                grown = held(nvml, pids) - before
                most = max(most, grown)
                over_book += taken > room + MIB
                over_driver += grown > room + MIB
                all_denied += taken == 0
                granted_to[sum(each > 0 for each in granted)] += 1
                judge.meet()
                judge.meet()
            workload.wait(30)
    said = (f"{rounds} rounds for {mib(room)}: over by what was granted {over_book}, by NVML {over_driver} (at most {mib(most)}); "
            f"granted to one {granted_to[1]}, to two {granted_to[2]}, to three {granted_to[3]}, to none {all_denied}")
    broken = "the limit was exceeded" if over_book or over_driver else "a request that fits was denied" if all_denied else ""
    return Finding(said, not broken, broken=broken)


def held(nvml, pids):
    listed = nvml.processes()
    return sum(listed.get(pid) or 0 for pid in pids)


def main(path, rounds):
    racers = [subprocess.Popen([sys.executable, "-c", f"from experiments.race import racer; racer({path!r}, {own}, {rounds})"]) for own in range(RACERS)]
    return max(each.wait() for each in racers)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
