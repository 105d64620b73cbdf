#!/usr/bin/env python3
"""NVIDIA's container toolkit beside ration: nvidia-ctk describes the simulated driver as it describes a real one, and one container has NVIDIA's device
and a tenant's. Skipped where the toolkit cannot be made (no Go, no network) or containers cannot be started."""
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import unittest

from drivers import BUILD, SOURCE

os.environ.setdefault("BUILD_BIN", str(BUILD / "bin"))
sys.path.insert(0, str(SOURCE / "tests/system"))
from containers.containers_test import IMAGE, OfEngine  # noqa: E402
from containers.engines import Docker, Podman, in_own_mounts, own_mounts  # noqa: E402
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
    for name, minor in (("nvidia0", 0), ("nvidiactl", 255)):
        os.mknod(devices / name, 0o666 | stat.S_IFCHR, os.makedev(MAJOR, minor))
    return libraries


class Toolkit(OfEngine):
    node = ""  # the driver is found, as on a server with a card

    def start(self, *options):
        self.root = self.folder / "root"
        self.put_over(lay_out_driver(self.root), "/usr/lib/x86_64-linux-gnu")
        super().start(*options)
        done = subprocess.run([TOOLKIT / "nvidia-ctk", "cdi", "generate", f"--driver-root={self.root}", f"--dev-root={self.root}", "--output=/run/cdi/nvidia.yaml",
                               f"--nvidia-cdi-hook-path={TOOLKIT / 'nvidia-cdi-hook'}"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.said = done.stderr

    def put_over(self, folder, place):
        """Until the end of the test, and for nobody else on this machine."""
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={folder}:{place}", place], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", place], check=True)

    def in_container(self, *words, devices, options=()):
        """Where both sides meet on the simulated card is a folder that has the same name inside."""
        for folder, _, files in os.walk(self.folder / "sim"):
            for path in [folder, *(os.path.join(folder, name) for name in files)]:
                os.chmod(path, 0o777)
        place = str(self.folder / "sim")
        return [*(f"--device={device}" for device in devices), "-v", f"{place}:{place}", "-e", f"RATION_SIM_DIR={place}", *options, IMAGE, *words]

    def test_nvidia_ctk_finds_the_card_and_the_libraries(self):
        self.assertIn("Using driver version 580.0", self.said)
        listed = subprocess.run([TOOLKIT / "nvidia-ctk", "cdi", "list"], capture_output=True, text=True)
        self.assertIn("nvidia.com/gpu=0\n", listed.stdout, listed.stderr)
        self.assertIn("ration.sh/tenant=nlp\n", listed.stdout)

    def test_nvidias_device_alone_is_the_whole_card(self):
        done = self.engine.call("run", "--rm", *self.in_container("ration-workload", "total", devices=["nvidia.com/gpu=0"]))
        whole = self.get("/api/v1/devices")[0]["total_bytes"]
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(whole)), done.stderr)

    def test_with_a_tenants_device_the_limit_holds(self):
        both = ["nvidia.com/gpu=0", "ration.sh/tenant=nlp"]
        for devices in (both, both[::-1]):
            with self.subTest(devices):
                total = self.engine.call("run", "--rm", *self.in_container("ration-workload", "total", devices=devices))
                self.assertEqual((total.returncode, total.stdout.strip()), (0, str(4 * GIB)), total.stderr)
                denied = self.engine.call("run", "--rm", *self.in_container("ration-workload", "steps", "5GiB:0s", devices=devices))
                self.assertNotEqual(denied.returncode, 0)
                self.assertIn("denied", denied.stderr)

    def test_the_numbers_agree(self):
        done = self.engine.call("run", "--detach", "--name", "holder", *self.in_container("ration-workload", "hold", "1GiB",
                                                                                          devices=["nvidia.com/gpu=0", "ration.sh/tenant=nlp"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(self.engine.remove, "holder")
        row = self.until(lambda: next((row for row in self.get("/api/v1/workloads") if row["governed"] and row["used_bytes"] > GIB), None), "it holds its memory")
        self.assertLess(row["used_bytes"], GIB + 512 * MIB)
        self.assertEqual(self.get("/api/v1/devices")[0]["used_bytes"], row["used_bytes"])


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


if __name__ == "__main__":
    if not (TOOLKIT / "nvidia-ctk").exists() or Podman.missing() or not own_mounts():
        print("skipped: needs NVIDIA's container toolkit (./dev test makes it where there is Go and a network), root and " + ", ".join(Podman.missing() or ["Podman"]))
        sys.exit(77)
    if "RATION_TEST_OWN_MOUNTS" not in os.environ:
        os.environ["RATION_TEST_OWN_MOUNTS"] = "1"
        in_own_mounts([sys.executable, *sys.argv])
    unittest.main(verbosity=2)
