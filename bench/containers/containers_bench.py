#!/usr/bin/env python3
"""What a limit adds to the start of a container, and what is left of containers that are killed: python3 bench/containers/containers_bench.py BUILD/bin [--quick]

Runs under Podman, and under Docker where `./dev test` has unpacked it, as root, in a mount namespace of its own. Prints one table: figure, measured, bound.
The start is that of `env` in a container: the same command with `--device ration.sh/tenant=nlp` and without, in turn; the median of the differences."""
import atexit
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.argv[1]).resolve()
QUICK = "--quick" in sys.argv
os.environ.update(BUILD_BIN=str(BIN), SOURCE=str(SOURCE))
sys.path.insert(0, str(SOURCE / "tests/system"))
from containers.engines import Docker, Podman, in_own_mounts, own_mounts, root_file_system  # noqa: E402
from node_client import environment_in, until  # noqa: E402

NODE = "T4:16GiB:context=64MiB"
IMAGE = "localhost/ration-bench:1"
DEVICE = ("--device", "ration.sh/tenant=nlp")


class Node:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "ration.toml").write_text('[daemon]\nsample = "100ms"\n[containers]\ncdi = "/run/cdi"\n[[tenant]]\nname = "nlp"\nlimit = "4GiB"\n')
        (self.folder / "sim").mkdir()
        self.environment = environment_in(folder, RATION_SIM=NODE)
        # In memory, as on a machine: the hook makes files there, which takes a file system on a disk longer.
        self.environment["RATION_RUNTIME_DIR"] = tempfile.mkdtemp(dir="/run")
        self.environment["RATION_SIM_DIR"] = str(self.folder / "sim")
        self.daemon = subprocess.Popen([BIN / "rationd", "--state", self.folder / "state", "--listen", ""], env=self.environment, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
        atexit.register(self.daemon.kill)
        until(lambda: pathlib.Path("/run/cdi/ration-tenant.json").exists(), "the devices are published")

    def left(self):
        rows = json.loads(subprocess.run([BIN / "ration", "ps", "-o", "json"], env=self.environment, capture_output=True, text=True, check=True).stdout)["data"]
        truth = json.loads(subprocess.run([BIN / "ration-sim-truth", "--json"], env=self.environment, capture_output=True, text=True, check=True).stdout)
        return len(rows["workloads"] if isinstance(rows, dict) else rows), sum(process["bytes"] for process in truth["devices"][0]["processes"])


def start_ms(engine, *options):
    begun = time.perf_counter()
    done = engine.call("run", "--rm", *options, IMAGE, "/usr/bin/env")
    assert done.returncode == 0, done.stderr
    return 1000 * (time.perf_counter() - begun)


def main():
    rows = []
    for engine_class in (Podman, Docker):
        if engine_class.missing():
            print(f"{engine_class.__name__} is not here: skipped")
            continue
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            engine = engine_class(folder)
            engine.make_image(root_file_system(pathlib.Path(folder) / "root"), IMAGE)
            node = Node(folder)
            start_ms(engine, *DEVICE)  # measures what a context costs, once for a device
            pairs = [(start_ms(engine, *DEVICE), start_ms(engine)) for _ in range(5 if QUICK else 21)]
            added = statistics.median(with_it - without for with_it, without in pairs)
            rows.append((f"{engine.name}: start, added by ration", f"{added:.0f} ms (of {statistics.median(b for _, b in pairs):.0f})", "20 ms"))
            kills = 10 if QUICK else 200
            for number in range(kills):
                name = f"killed-{number}"
                engine.call("run", "--detach", "--name", name, *DEVICE, IMAGE, "ration-workload", "steps", "--repeat", "--refused", "go-on", "--via",
                            ["malloc", "async", "vmm"][number % 3], "--block", "16MiB", "1GiB:1ms", "0GiB:1ms")
                for victim in engine.kill(name, number % 2 == 1):
                    os.kill(victim, 9)
                engine.remove(name)
            until(lambda: node.left() == (0, 0), "nothing is left")
            rows.append((f"{engine.name}: left of {kills} containers killed while they allocate", "{} leases, {} B".format(*node.left()), "0, 0"))
            node.daemon.terminate()
            node.daemon.wait()
            engine.end()
    width = max(len(row[0]) for row in rows)
    print(f"{'containers':<{width}}  {'measured':>18}  {'bound':>8}")
    for row in rows:
        print(f"{row[0]:<{width}}  {row[1]:>18}  {row[2]:>8}")


if __name__ == "__main__":
    if not own_mounts() or shutil.which("podman") is None:
        print("containers: skipped, they need root and podman")
        sys.exit(0)
    if "RATION_TEST_OWN_MOUNTS" not in os.environ:
        os.environ["RATION_TEST_OWN_MOUNTS"] = "1"
        in_own_mounts([sys.executable, *sys.argv])
    main()
