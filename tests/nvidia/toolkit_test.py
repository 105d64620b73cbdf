#!/usr/bin/env python3
"""NVIDIA's container toolkit beside ration: nvidia-ctk describes the simulated driver and its two cards as it describes a real one, and one container has
NVIDIA's device and a tenant's, under Podman, Docker and containerd. Skipped where the toolkit cannot be made (no Go, no network) or containers cannot be started."""
import itertools
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import unittest

from drivers import BUILD, ROOM, SOURCE, compile_c

os.environ.setdefault("BUILD_BIN", str(BUILD / "bin"))
sys.path.insert(0, str(SOURCE / "tests/system"))
from containers.containers_test import IMAGE, OfEngine  # noqa: E402
from containers.engines import Cri, Docker, Podman, in_own_mounts, own_mounts  # noqa: E402
from node.node_case import Case  # noqa: E402
from node_client import GIB, MIB  # noqa: E402

TOOLKIT = SOURCE / "build/nvidia-toolkit"
MAJOR = 195  # of NVIDIA's character devices


def lay_out_driver(root):
    """The simulated driver as a driver's package has it: files named by their release, and device nodes."""
    libraries, devices = root / "usr/lib/x86_64-linux-gnu", root / "dev"
    libraries.mkdir(parents=True)
    devices.mkdir()
    for name in ("libcuda", "libnvidia-ml"):
        shutil.copy(BUILD / f"sim/{name}.so.1", libraries / f"{name}.so.580.0")
        (libraries / f"{name}.so.1").symlink_to(f"{name}.so.580.0")
    for name, minor in (("nvidia0", 0), ("nvidia1", 1), ("nvidiactl", 255)):
        os.mknod(devices / name, 0o666 | stat.S_IFCHR, os.makedev(MAJOR, minor))
    return libraries, devices


class Toolkit(OfEngine):
    node = ""  # the driver is found, as on a server with a card

    def start(self, *options):
        self.root = self.folder / "root"
        libraries, devices = lay_out_driver(self.root)
        self.put_over(libraries, "/usr/lib/x86_64-linux-gnu")
        self.put_over(devices, "/dev")
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)  # Podman's locks: what was there is covered
        (self.folder / "sim").mkdir()
        (self.folder / "sim/node.toml").write_text('device_nodes = "/dev"\n[[device]]\nmodel = "T4"\ncount = 2\n')
        super().start(*options)
        done = subprocess.run([TOOLKIT / "nvidia-ctk", "cdi", "generate", f"--driver-root={self.root}", "--dev-root=/", "--output=/run/cdi/nvidia.yaml",
                               f"--nvidia-cdi-hook-path={TOOLKIT / 'nvidia-cdi-hook'}"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.said = done.stderr

    def put_over(self, folder, place):
        """Until the end of the test, and for nobody else on this machine."""
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={folder}:{place}", place], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", place], check=True)

    def open_node(self):
        """For whoever meets on the simulated cards: a folder that has the same name in a container."""
        for folder, _, files in os.walk(self.folder / "sim"):
            for path in [folder, *(os.path.join(folder, name) for name in files)]:
                os.chmod(path, 0o777)
        return str(self.folder / "sim")

    def in_container(self, *words, devices, options=()):
        place = self.open_node()
        return [*(f"--device={device}" for device in devices), "-v", f"{place}:{place}", "-e", f"RATION_SIM_DIR={place}", *options, IMAGE, *words]

    def run_in(self, *words, devices):
        return self.engine.call("run", "--rm", *self.in_container(*words, devices=devices))

    def start_in(self, *words, devices):
        done = self.engine.call("run", "--detach", "--name", "holder", *self.in_container(*words, devices=devices))
        self.addCleanup(self.engine.remove, "holder")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_nvidia_ctk_finds_the_cards_and_the_libraries(self):
        self.assertIn("Using driver version 580.0", self.said)
        listed = subprocess.run([TOOLKIT / "nvidia-ctk", "cdi", "list"], capture_output=True, text=True)
        for device in ("0", "1", "all"):
            self.assertIn(f"nvidia.com/gpu={device}\n", listed.stdout, listed.stderr)
        self.assertIn("ration.sh/tenant=nlp\n", listed.stdout)

    def test_nvidias_device_alone_is_the_whole_card(self):
        done = self.run_in("ration-workload", "total", devices=["nvidia.com/gpu=0"])
        whole = self.get("/api/v1/devices")[0]["total_bytes"]
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(whole)), done.stderr)

    def test_a_card_that_nvidias_device_did_not_give_is_not_there(self):
        devices = self.get("/api/v1/devices")
        cards, whole = [device["uuid"] for device in devices], devices[0]["total_bytes"]
        self.assertEqual(len(cards), 2)
        made = compile_c(ROOM / "cards.c", self.folder / "sim/cards", BUILD / "sim/libcuda.so.1", BUILD / "sim/libnvidia-ml.so.1")
        self.assertEqual(made.returncode, 0, made.stderr)
        for given, seen in (("0", cards[:1]), ("1", cards[1:]), ("all", cards)):
            for devices in ([f"nvidia.com/gpu={given}"], [f"nvidia.com/gpu={given}", "ration.sh/tenant=nlp"]):
                with self.subTest(devices):
                    done = self.run_in(self.folder / "sim/cards", devices=devices)
                    total = 4 * GIB if len(devices) == 2 else whole
                    self.assertEqual((done.returncode, done.stdout.splitlines()), (0, [f"nvml {card}" for card in seen] + [f"cuda {card} {total}" for card in seen]),
                                     done.stderr)

    def test_with_a_tenants_device_the_limit_holds(self):
        both = ["nvidia.com/gpu=0", "ration.sh/tenant=nlp"]
        for devices in (both, both[::-1]):
            with self.subTest(devices):
                total = self.run_in("ration-workload", "total", devices=devices)
                self.assertEqual((total.returncode, total.stdout.strip()), (0, str(4 * GIB)), total.stderr)
                denied = self.run_in("ration-workload", "steps", "5GiB:0s", devices=devices)
                self.assertNotEqual(denied.returncode, 0)
                self.assertIn("denied", denied.stderr)

    def test_the_numbers_agree(self):
        self.start_in("ration-workload", "hold", "1GiB", devices=["nvidia.com/gpu=1", "ration.sh/tenant=nlp"])
        row = self.until(lambda: next((row for row in self.get("/api/v1/workloads") if row["governed"] and row["used_bytes"] > GIB), None), "it holds its memory")
        self.assertLess(row["used_bytes"], GIB + 512 * MIB)
        self.assertEqual([device["used_bytes"] for device in self.get("/api/v1/devices")], [0, row["used_bytes"]])


class UnderPodman(Toolkit, Case):
    engine_class = Podman

    def test_a_limit_holds_through_nvidias_runtime(self):
        """Which reads from the container's environment what NVIDIA's device is."""
        settings = self.folder / "settings/nvidia-container-runtime"
        settings.mkdir(parents=True)
        (settings / "config.toml").write_text('[nvidia-container-runtime]\nmode = "cdi"\nruntimes = ["runc"]\n'
                                              f'[nvidia-ctk]\npath = "{TOOLKIT / "nvidia-ctk"}"\n')
        self.put_over(settings.parent, "/etc")
        words = self.in_container("ration-workload", "total", devices=["ration.sh/tenant=nlp"], options=["-e", "NVIDIA_VISIBLE_DEVICES=0"])
        for asked, code, total in ((words, 0, str(4 * GIB)), ([word.replace("DEVICES=0", "DEVICES=void") for word in words], 1, "")):
            done = self.engine.call("--runtime", TOOLKIT / "nvidia-container-runtime", "run", "--rm", *asked)
            self.assertEqual((done.returncode, done.stdout.strip()), (code, total), done.stderr)


class UnderDocker(Toolkit, Case):
    engine_class = Docker


class UnderContainerd(Toolkit, Case):
    """Asked for pods, as Kubernetes asks it."""
    engine_class = Cri
    names = map("trial-{}".format, itertools.count())  # each has a log of its own

    def start_in(self, *words, devices):
        place = self.open_node()
        pod, container, done = self.engine.pod(next(self.names), devices, IMAGE, *map(str, words), mounts=[place], environment=[f"RATION_SIM_DIR={place}"])
        self.addCleanup(self.engine.crictl, "rmp", "--force", pod)
        self.assertEqual(done.returncode, 0, done.stderr)
        return pod, container

    def run_in(self, *words, devices):
        pod, container = self.start_in(*words, devices=devices)
        code, logs = self.engine.exit_code(container), self.engine.crictl("logs", container)
        self.engine.crictl("rmp", "--force", pod)
        return subprocess.CompletedProcess(words, code, logs.stdout, logs.stderr)


if __name__ == "__main__":
    if not (TOOLKIT / "nvidia-ctk").exists() or Podman.missing() or not own_mounts():
        print("skipped: needs NVIDIA's container toolkit (./dev test makes it where there is Go and a network), root and " + ", ".join(Podman.missing() or ["Podman"]))
        sys.exit(77)
    if "RATION_TEST_OWN_MOUNTS" not in os.environ:
        os.environ["RATION_TEST_OWN_MOUNTS"] = "1"
        in_own_mounts([sys.executable, *sys.argv])
    unittest.main(verbosity=2)
