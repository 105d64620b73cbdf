#!/usr/bin/env python3
"""Containers under a limit by one option of their own engine, on the simulated GPU: Podman with runc, and bubblewrap."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from containers.engines import Containerd, Cri, Docker, Podman, in_own_mounts, own_mounts, root_file_system  # noqa: E402
from node.node_case import Case  # noqa: E402
from node_client import BIN, GIB, MIB  # noqa: E402

IMAGE = "localhost/ration-test:1"
BOOK = "/.ration/book"
FIELDS = json.loads(subprocess.run([BIN / "book_offsets"], capture_output=True, text=True, check=True).stdout)


def written(text, field):
    return f"printf '{text}' | dd of={BOOK} bs=1 seek={FIELDS[field]} conv=notrunc"


SIXTY_FOUR_GIB = r"\000\000\000\000\020\000\000\000"  # as the machine has it in memory
ATTACKS = {  # what root of a container does to its book, and whether that is seen as damage
    "zeros": (f"dd if=/dev/zero of={BOOK} bs=4096 count=300 conv=notrunc", True),
    "noise": (f"dd if=/dev/urandom of={BOOK} bs=4096 count=300 conv=notrunc", True),
    "limit": (written(SIXTY_FOUR_GIB, "accounts[0].limit"), True),
    "device": (written("xxxx", "accounts[0]"), True),
    "cut short": (f"truncate -s 0 {BOOK}", True),
    "made long": (f"truncate -s 1099511627776 {BOOK}", True),
    "names": (written(r"vision\000", "header.tenant") + ";" + written(r"calm\000", "header.name") + ";" + written(r"container=calm\000", "header.labels"), False),
    "process": (written("".join(rf"\{byte:03o}" for byte in os.stat("/proc/self/ns/pid").st_ino.to_bytes(8, sys.byteorder)), "slots[0].pid_namespace"), True),
    "end": (written("xxxx", "header.ended_ns") + ";" + written(r"\001\000\000\000", "header.creator_pid"), False),
}
KILLS = int(os.environ.get("RATION_TEST_KILLS", "20"))
EVERYWHERE = "RATION_TEST_ALL" in os.environ  # what takes minutes and does not depend on the engine: under each of them, not under Podman alone
MANY = 20  # containers at once
# This machine's Python, in a container.
PYTHON = [word for path in (os.path.realpath("/usr/bin/python3"), f"/usr/lib/{os.path.basename(os.path.realpath('/usr/bin/python3'))}",
                            "/usr/lib/x86_64-linux-gnu") for word in ("-v", f"{path}:{'/usr/bin/python3' if 'bin' in path else path}:ro")]
# What NVML tells: the memory of device 0, and who computes on it.
NVML = """
import ctypes, json
nvml = ctypes.CDLL("libnvidia-ml.so.1")
class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]
class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("bytes", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]
device, memory, count, processes = ctypes.c_void_p(), Memory(), ctypes.c_uint(16), (Process * 16)()
codes = [nvml.nvmlInit_v2(), nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))]
assert codes == [0, 0], codes
assert nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == 0
assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes) == 0
print(json.dumps({"total": memory.total, "used": memory.used, "processes": {each.pid: each.bytes for each in processes[:count.value]}}))
"""
REQUEST = """
import socket
s = socket.socket(socket.AF_UNIX)
s.connect('/.ration/ration.sock')
method, path, body = '%s', '%s', b'%s'
s.sendall(b'%%s %%s HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/json\\r\\nContent-Length: %%d\\r\\nConnection: close\\r\\n\\r\\n' %%
          (method.encode(), path.encode(), len(body)) + body)
print(b''.join(iter(lambda: s.recv(65536), b'')).decode())
"""


class LosesBooks:
    """The daemon, as whoever it is lost to sees it when it is asked to look at a book."""

    def __init__(self, path, daemon):
        self.path, self.daemon = path, str(daemon)

    def __enter__(self):
        self.ends = [socket.socket(socket.AF_UNIX)]
        self.listener, = self.ends
        self.listener.bind(str(self.path))
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        for each in self.ends:
            each.close()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            daemon = socket.socket(socket.AF_UNIX)
            self.ends += [client, daemon]
            daemon.connect(self.daemon)
            threading.Thread(target=self.pass_on, args=(daemon, client), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(client, daemon), daemon=True).start()

    def pass_on(self, source, target):
        with contextlib.suppress(OSError):  # the other direction has ended it
            while (part := source.recv(65536)) and b'"made":true' not in part:
                target.sendall(part)
            for end in (source, target):
                end.shutdown(socket.SHUT_RDWR)


class OfEngine:
    """A daemon that describes its devices to an engine, and an image of it."""
    engine_class = None
    node = "--sim=T4:16GiB:context=64MiB"
    configuration = """
[containers]
cdi = "/run/cdi"
[[tenant]]
name = "nlp"
limit = "4GiB"
[[tenant]]
name = "vision"
limit = "2GiB"
"""

    @classmethod
    def setUpClass(cls):
        if cls.engine_class.missing():
            raise unittest.SkipTest(", ".join(cls.engine_class.missing()) + " is not here")
        cls.shared = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.shared, True)
        cls.engine = cls.engine_class(cls.shared)
        cls.addClassCleanup(cls.engine.end)
        cls.root = root_file_system(cls.shared / "root")
        cls.engine.make_image(cls.root, IMAGE)

    def setUp(self):
        super().setUp()
        self.until(lambda: pathlib.Path("/run/cdi/ration-tenant.json").exists(), "the devices are published")

    def start(self, *options):
        (self.folder / "sim").mkdir(exist_ok=True)
        self.environment["RATION_SIM_DIR"] = str(self.folder / "sim")
        super().start(*options)

    def truth(self):
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=dict(self.environment, RATION_SIM=self.node.removeprefix("--sim=")),
                              capture_output=True, text=True, check=True)
        return json.loads(told.stdout)["devices"][0]


class Containers(OfEngine):
    """What holds under every engine."""

    def open_node(self):
        """Programs of every user share the simulated node, as they share a card."""
        self.run_in("ration-workload", "total")
        for folder, _, files in os.walk(self.folder / "sim"):
            for path in [folder, *(os.path.join(folder, name) for name in files)]:
                os.chmod(path, 0o777)

    def governed(self):
        return [row for row in self.get("/api/v1/workloads") if row["governed"]]

    def run_in(self, *words, device="ration.sh/tenant=nlp", options=(), image=IMAGE, **more):
        return self.engine.call("run", "--rm", *options, "--device", device, image, *words, **more)

    def start_in(self, name, *words, device="ration.sh/tenant=nlp", options=()):
        done = self.engine.call("run", "--detach", "--name", name, *options, "--device", device, IMAGE, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(self.engine.remove, name)

    def thorough(self):
        if self.engine_class is not Podman and not EVERYWHERE:
            self.skipTest("run under Podman; RATION_TEST_ALL=1 runs it under every engine")

    def refused(self, done, *texts):
        self.assertNotEqual(done.returncode, 0)
        for text in texts:
            self.assertIn(text, done.stderr)

    # ------------------------------------------------------------------------------------------------------ the limit holds

    def test_a_tenants_device_is_its_limit(self):
        done = self.run_in("ration-workload", "total")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(4 * GIB)), done.stderr)

    def test_every_way_of_the_probe_is_held(self):
        done = self.run_in("ration-workload", "probe", "64", device="ration.sh/tenant=vision")
        self.assertGreaterEqual(len(done.stdout.splitlines()), 28, done.stdout + done.stderr)
        self.assertLessEqual(self.truth()["peak_bytes"], 2 * GIB)
        self.assertGreater(self.truth()["peak_bytes"], 2 * GIB - 128 * MIB)

    def test_no_environment_leads_round_it(self):
        for words in (["env", "-i", "/usr/bin/ration-workload", "total"], ["sh", "-c", "unset LD_PRELOAD; exec ration-workload total"]):
            options = () if words[0] == "sh" else ()
            done = self.run_in(*words, options=(*options, "-e", "RATION_BOOK=/tmp/none", "-e", "LD_PRELOAD="))
            if words[0] == "env":  # the simulated driver is found by variables, which are gone: nothing at all is taken
                self.assertNotIn(str(16 * GIB), done.stdout)
            else:
                self.assertEqual(done.stdout.strip(), str(4 * GIB), done.stderr)

    def test_another_user_of_the_container_is_held(self):
        self.open_node()
        done = self.run_in("ration-workload", "total", options=("--user", "1000:1000"))
        self.assertEqual(done.stdout.strip(), str(4 * GIB), done.stderr)
        done = self.run_in("su", "alice", "-p", "-c", "ration-workload total")
        self.assertEqual(done.stdout.strip(), str(4 * GIB), done.stderr)

    def test_a_volume_on_the_guard_lets_nothing_past_the_limit(self):
        """Where it lies below the guard, it is not seen; where it lies above, nothing starts."""
        (self.shared / "empty").mkdir(exist_ok=True)
        (self.shared / "empty/file").touch()
        for option in ("-v", f"{self.shared}/empty/file:/.ration/guard/libcuda.so.1"), ("-v", f"{self.shared}/empty/file:/.ration/guard/libnvidia-ml.so.1"):
            done = self.run_in("ration-workload", "total", options=option)
            self.assertIn((done.returncode == 0, done.stdout), ((False, ""), (True, f"{4 * GIB}\n")), done.stderr)

    def test_no_container_can_lock_the_daemon_out(self):
        locks = self.run_in("sh", "-c", "ls -A /.ration").stdout
        self.assertIn("ration.sock", locks)
        self.assertNotIn(".lock", locks)

    def test_root_of_the_container_cannot_take_the_guard_away(self):
        for words in ("umount /etc/ld.so.preload", "echo > /etc/ld.so.preload", "rm /etc/ld.so.preload", "mv /etc/ld.so.preload /tmp/x",
                      "umount /.ration/book", "rm /.ration/book"):
            done = self.run_in("sh", "-c", words)
            self.assertNotEqual(done.returncode, 0, words)
        done = self.run_in("sh", "-c", "umount /etc/ld.so.preload; umount /.ration/book; ration-workload total")
        self.assertEqual(done.stdout.strip(), str(4 * GIB), done.stderr)

    def test_a_book_that_is_overwritten_gives_nothing(self):
        done = self.run_in("sh", "-c", "cat /bin/busybox > /.ration/book; ration-workload total; ration-workload hold 1MiB")
        self.assertNotIn("holding", done.stdout)

    def test_what_is_above_the_book_cannot_be_renamed(self):
        for words in ("mv /.ration /x", "mv /.ration/guard /x", "mv /.ration/book /x", "rm -r /.ration"):
            self.assertNotEqual(self.run_in("sh", "-c", words).returncode, 0, words)
        done = self.run_in("sh", "-c", "mv /.ration /x; mv /run /r2; mv /etc /e2; ration-workload total")
        self.assertEqual(done.stdout.strip(), str(4 * GIB), done.stderr)

    def test_two_devices_are_one_too_many(self):
        done = self.run_in("ration-workload", "total", options=("--device", "ration.sh/tenant=vision"))
        self.refused(done, "E1706", "two of ration's devices")
        self.until(lambda: self.get("/api/v1/workloads") == [], "nothing is left")

    def test_a_long_name_is_shortened(self):
        done = self.run_in("ration-workload", "total", options=("--name", "n" * 70))
        self.assertEqual(done.stdout.strip(), str(4 * GIB), done.stderr)

    def test_root_of_a_container_is_no_operator(self):
        program = ("import socket;s=socket.socket(socket.AF_UNIX);s.connect('/s.sock');"
                   "b=b'{\"limit\":\"15GiB\"}';s.sendall(b'PATCH /api/v1/tenants/nlp HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/json\\r\\n"
                   "Content-Length: %d\\r\\nConnection: close\\r\\n\\r\\n'%len(b)+b);print(s.recv(9999).decode())")
        done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "python3", "-c", program.replace("/s.sock", str(self.folder / "ration.sock"))],
                              capture_output=True, text=True, timeout=60)
        self.assertIn("E1502", done.stdout + done.stderr)

    def test_a_read_only_root_is_no_hindrance(self):
        done = self.run_in("ration-workload", "total", options=("--read-only",))
        self.assertEqual(done.stdout.strip(), str(4 * GIB), done.stderr)

    # ------------------------------------------------------------------------------------------------------- who it is

    def test_the_node_knows_it_by_its_name(self):
        self.start_in("web", "ration-workload", "hold", "1GiB")
        row = self.until(lambda: next((row for row in self.governed() if row["used_bytes"] > GIB), None), "it holds memory")
        self.assertEqual((row["workload"], row["tenant"], row["used_bytes"]), ("web", "nlp", GIB + 64 * MIB))
        labels = dict(entry.split("=", 1) for entry in row["labels"].split(","))
        self.assertEqual((labels["container"], labels["engine"], labels["image"]), ("web", self.engine.name, IMAGE))
        explained = self.get("/api/v1/workloads/web/explain")[0]["rows"]
        self.assertEqual(sum(part["bytes"] or 0 for part in explained), GIB + 64 * MIB)

    def test_two_of_one_name_or_tenant_have_books_of_their_own(self):
        self.start_in("one", "ration-workload", "hold", "1GiB")
        self.start_in("two", "ration-workload", "hold", "1GiB")
        self.until(lambda: sorted(row["workload"] for row in self.governed() if row["used_bytes"]) == ["one", "two"], "both are there")
        done = self.run_in("ration-workload", "hold", "3GiB")
        self.assertNotIn("holding", done.stdout)  # the tenant's limit is for all of its containers together

    # ------------------------------------------------------------------------------------------- its book, as an enemy has it

    def seen_in(self, name):
        """What `ration ps` says of it."""
        return next(line for line in self.ration("ps", self.node).stdout.splitlines() if f"/{name} " in line)

    def nothing_left_of(self, name):
        self.engine.remove(name)
        self.until(lambda: name not in self.rows(), "it has left")
        self.assertEqual([path.name for path in (self.folder / "granted").iterdir() if path.name.startswith(name + ".")], [])
        self.assertNotIn(f"/{name}.", pathlib.Path("/proc/self/mounts").read_text())

    def attacked_by(self, user):
        self.open_node()
        self.start_in("calm", "ration-workload", "hold", "1GiB", device="ration.sh/tenant=vision")
        self.until(lambda: self.rows().get("calm", {}).get("used_bytes", 0) > GIB, "it holds memory")
        for number, (what, (attack, is_damage)) in enumerate(ATTACKS.items()):
            with self.subTest(what):
                name = f"evil-{user}-{number}"
                self.start_in(name, "sh", "-c", "ration-workload hold 1GiB & exec sleep 1000", options=("--user", user))
                self.until(lambda: self.rows().get(name, {}).get("used_bytes", 0) > GIB, "it holds memory")
                done = self.engine.execute(name, "sh", "-c", attack, user=user)
                self.assertEqual(done.returncode, 0, done.stderr)
                for restarted in (False, True):
                    if restarted:
                        self.stop(signal.SIGKILL)
                        self.start()
                    if is_damage:
                        self.until(lambda: "book_altered" in self.rows()[name], "it is told")
                        self.assertIn("BOOK ALTERED", self.seen_in(name))
                        # What it holds is not known any more, so its tenant has nothing left to give.
                        self.assertNotIn("holding", self.run_in("ration-workload", "hold", "1GiB").stdout)
                    row = self.rows()[name]
                    self.assertEqual((row["tenant"], row["limit_bytes"]), ("nlp", 4 * GIB))
                    calm = self.rows()["calm"]
                    self.assertEqual((calm["tenant"], calm["used_bytes"], calm["limit_bytes"]), ("vision", GIB + 64 * MIB, 2 * GIB))
                told = [event["text"] for event in self.events("violation") if f"(container {name}) was altered" in event["text"]]
                self.assertEqual(len(told), is_damage)
                self.nothing_left_of(name)
                self.assertEqual(self.run_in("ration-workload", "total").stdout.strip(), str(4 * GIB))
        self.assertEqual(self.events("guard_lost"), [])

    def test_root_of_a_container_gains_nothing_by_what_it_writes_into_its_book(self):
        self.thorough()
        self.attacked_by("0")

    def test_nor_does_another_user_of_it(self):
        self.thorough()
        self.attacked_by("1000")

    def test_a_book_has_no_room_to_grow(self):
        self.start_in("evil", "sleep", "1000")
        whole = self.book("evil").stat().st_size
        done = self.engine.execute("evil", "sh", "-c", f"dd if=/dev/zero of={BOOK} bs=1048576 seek=2 count=64 conv=notrunc")
        self.assertIn("No space left", done.stderr)
        room = os.statvfs(self.book("evil"))
        self.assertEqual(room.f_blocks * room.f_frsize, whole)
        self.assertEqual(self.book("evil").stat().st_size, whole)
        self.engine.execute("evil", "truncate", "-s", "1099511627776", BOOK)
        self.until(lambda: self.book("evil").stat().st_size == whole, "it is cut back")
        self.assertIn("nlp/evil extended the file of its book to 1.00 TiB; the daemon cut the file to its proper size", [event["text"] for event in self.events("violation")])
        done = self.run_in("ration-workload", "total", device="ration.sh/tenant=vision")  # others get books all the while
        self.assertEqual(done.stdout.strip(), str(2 * GIB), done.stderr)
        self.nothing_left_of("evil")

    def test_a_book_that_is_cut_short_all_the_time_ends_nobody_else(self):
        self.thorough()
        self.start_in("evil", "sh", "-c", f"while :; do truncate -s 0 {BOOK}; truncate -s 4096 {BOOK}; truncate -s 2000000 {BOOK}; done")
        for _ in range(100):
            self.ask("PATCH", "/api/v1/workloads/evil", {"limit": "1GiB"})
            self.rows()
        self.assertEqual(self.ration("ps", self.node).returncode, 0)
        self.assertIsNone(self.daemon.poll())
        self.nothing_left_of("evil")

    def test_what_killed_hooks_left_goes_with_the_next_start(self):
        self.start_in("first", "sleep", "1000")
        making = self.folder / "making" / "half.7.book"
        making.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "none", making], check=True)
        left = [self.folder / "books" / "half.7.book.new", self.folder / "granted" / "half.7.book.new"]
        for path in left:
            path.write_bytes(b"half")
        self.start_in("second", "sleep", "1000")
        self.assertEqual([path for path in (*left, making) if path.exists()], [])
        self.assertEqual(self.events("guard_lost"), [])

    # ---------------------------------------------------------------------------------------------------------- its end

    def gone(self):
        return self.get("/api/v1/workloads") == [] and all(process["bytes"] == 0 for process in self.truth()["processes"])

    def test_nothing_is_left_of_containers_that_are_killed(self):
        for number in range(KILLS if self.engine_class is Podman or EVERYWHERE else 5):
            name = f"killed-{number}"
            self.start_in(name, "ration-workload", "steps", "--repeat", "--via", ["malloc", "async", "vmm"][number % 3], "--block", "16MiB", "1GiB:1ms", "0GiB:1ms")
            for victim in self.engine.kill(name, number % 2 == 1):
                os.kill(victim, signal.SIGKILL)
            self.until(self.gone, "nothing is left")
            self.engine.remove(name)

    def test_limits_hold_while_the_daemon_is_started_again(self):
        self.thorough()
        for number in range(MANY):
            self.start_in(f"c{number}", "ration-workload", "hold", "64MiB")
        held = lambda: sum(row["used_bytes"] for row in self.get("/api/v1/workloads"))  # noqa: E731
        self.until(lambda: held() == MANY * (64 + 64) * MIB, "all hold memory")
        self.stop(signal.SIGKILL)
        self.start()
        self.until(lambda: held() == MANY * (64 + 64) * MIB, "all are known again")
        self.assertEqual(set(self.rows()), {f"c{number}" for number in range(MANY)})

    # -------------------------------------------------------------------------------------------------------- bad input

    def test_without_the_daemon_no_container_starts(self):
        self.stop()
        self.refused(self.run_in("ration-workload", "total"), "E1501")

    def test_a_device_that_is_not_there(self):
        self.refused(self.run_in("ration-workload", "total", device="ration.sh/tenant=nobody"), "ration.sh/tenant=nobody")
        self.refused(self.run_in("ration-workload", "total", device="ration.sh/gpu=0.2"), "ration.sh/gpu=0.2")

    def test_a_slice_holds_one_container(self):
        self.assertEqual(self.ration("split", self.node, "0", "--sizes", "2GiB,3GiB", "--yes").returncode, 0)
        self.until(lambda: pathlib.Path("/run/cdi/ration-gpu.json").exists(), "its devices are published")
        self.start_in("first", "ration-workload", "hold", "1GiB", device="ration.sh/gpu=0.1")
        self.refused(self.run_in("ration-workload", "total", device="ration.sh/gpu=0.1"), "E1604", "first")
        done = self.run_in("ration-workload", "total", device="ration.sh/gpu=0.0")
        self.assertEqual(done.stdout.strip(), str(2 * GIB), done.stderr)
        self.engine.remove("first")
        self.assertEqual(self.ration("split", self.node, "0", "--off", "--yes").returncode, 0)
        self.until(lambda: not pathlib.Path("/run/cdi/ration-gpu.json").exists(), "its devices are gone")

    def image_with(self, name, change):
        root = self.folder / name
        shutil.copytree(self.root, root, symlinks=True)
        change(root)
        self.engine.make_image(root, f"localhost/{name}:1")
        return f"localhost/{name}:1"

    def test_images_that_the_guard_does_not_reach_are_refused(self):
        def musl(root):
            library = b"/lib/ld-linux-x86-64.so.2", b"/lib/ld-musl-x86_64.so.1\0"
            program = root / "usr/bin/ration-workload"
            content = program.read_bytes()
            at = content.index(b"/lib64/ld-linux-x86-64.so.2\0")
            program.write_bytes(content[:at] + library[1].ljust(28, b"\0") + content[at + 28:])

        def old(root):
            library = root / "lib/x86_64-linux-gnu/libc.so.6"
            library.write_bytes(library.read_bytes().replace(b"GLIBC_2.17", b"GLIBC_2.07"))

        def static(root):
            shutil.rmtree(root / "lib")

        self.refused(self.run_in("ration-workload", "total", image=self.image_with("musl", musl)), "E1702", "musl")
        self.refused(self.run_in("ration-workload", "total", image=self.image_with("old", old)), "E1702", "2.17")
        self.refused(self.run_in("sh", "-c", "true", image=self.image_with("static", static)), "E1702", "no glibc")
        self.assertEqual(self.get("/api/v1/workloads"), [])


class Claims(Containers):
    """What Kubernetes was granted on this node, for engines that read its devices."""

    def claim(self, claim, *gibibytes, **more):
        devices = [{"uuid": self.get("/api/v1/devices")[0]["uuid"], "limit_bytes": size * GIB} for size in gibibytes]
        return self.ask("PUT", f"/api/v1/claims/{claim}", {"name": f"ml/{claim}", "tenant": "vision", "devices": devices, **more})

    def test_a_claim_is_the_limit_of_its_container(self):
        self.assertEqual(self.claim("c-1", 3)[1]["id"], "E1104", "its tenant may hold no more than 2 GiB")
        status, answer = self.claim("c-1", 2)
        self.assertEqual((status, answer["data"]["cdi"], answer["data"]["devices"][0]["gpu"]), (200, "ration.sh/claim=c-1", 0))
        for restarted in (False, True):  # also once the daemon was killed
            if restarted:
                self.stop(signal.SIGKILL)
                self.start()
            self.assertEqual(self.claim("c-1", 2), (200, {**self.claim("c-1", 2)[1], "time": mock.ANY}))
            self.assertEqual(self.run_in("ration-workload", "total", device="ration.sh/claim=c-1").stdout.strip(), str(2 * GIB))
        self.assertEqual(self.claim("c-1", 1)[0], 409)
        self.assertEqual(self.ask("DELETE", "/api/v1/claims/c-1")[0], 204)
        self.assertEqual(self.ask("DELETE", "/api/v1/claims/c-1")[0], 204)
        self.assertNotEqual(self.run_in("ration-workload", "total", device="ration.sh/claim=c-1").returncode, 0)
        self.assertFalse(pathlib.Path("/run/cdi/ration-claim.json").exists())

    def test_a_package_that_is_replaced_under_the_daemon_is_no_hindrance(self):
        prefix = self.folder / "prefix"
        shutil.copytree(BIN.parent / "bin", prefix / "bin", symlinks=True, ignore=lambda _, names: [name for name in names if not name.startswith("ration")])
        for part in ("shim", "sim", "share"):
            (prefix / part).symlink_to(BIN.parent / part)
        self.stop()
        self.program = prefix / "bin/rationd"
        self.start()
        shutil.copy(prefix / "bin/ration", prefix / "bin/newer")
        os.replace(prefix / "bin/newer", prefix / "bin/ration")
        status, answer = self.claim("c-1", 1)
        self.assertEqual(status, 200, answer)
        done = self.run_in("ration-workload", "total", device="ration.sh/claim=c-1")
        self.assertEqual(done.stdout.strip(), str(GIB), f"{done.returncode}: {done.stderr}")

    def test_several_claims_of_a_container_are_one_limit(self):
        self.claim("c-1", 1, tenant="nlp")
        self.claim("c-2", 2, tenant="nlp")
        done = self.run_in("ration-workload", "total", device="ration.sh/claim=c-1", options=("--device", "ration.sh/claim=c-2"))
        self.assertEqual(done.stdout.strip(), str(3 * GIB), done.stderr)
        done = self.run_in("ration-workload", "total", device="ration.sh/claim=c-1", options=("--device", "ration.sh/tenant=nlp"))
        self.refused(done, "E1706")

    def test_containers_of_one_claim_share_its_limit(self):
        self.claim("c-1", 3, tenant="nlp")
        self.start_in("one", "ration-workload", "hold", "2GiB", device="ration.sh/claim=c-1")
        self.until(lambda: self.rows().get("one", {}).get("used_bytes", 0) > 2 * GIB, "it holds memory")
        self.start_in("two", "sh", "-c", "ration-workload hold 1GiB; exec ration-workload hold 512MiB", device="ration.sh/claim=c-1")
        self.until(lambda: self.rows().get("two", {}).get("used_bytes", 0) > 512 * MIB, "it got what is left")
        self.assertEqual(self.truth()["peak_bytes"], (2 * 64 + 512) * MIB + 2 * GIB)

    def test_a_claim_that_engines_cannot_be_told_of_is_told_once_they_can(self):
        shutil.rmtree("/run/cdi")
        pathlib.Path("/run/cdi").touch()
        status, answer = self.claim("c-1", 1)
        self.assertEqual((status, answer["id"]), (503, "E1704"))
        os.unlink("/run/cdi")
        self.assertEqual(self.claim("c-1", 1)[0], 200)
        self.assertEqual(self.run_in("ration-workload", "total", device="ration.sh/claim=c-1").stdout.strip(), str(GIB))


class UnderPodman(Claims, Case):
    engine_class = Podman

    def test_a_link_to_the_preload_file_is_refused(self):  # Docker puts folders of its own over such links
        def linked(root):
            (root / "etc").rename(root / "real-etc")
            (root / "etc").symlink_to("real-etc")

        self.refused(self.run_in("ration-workload", "total", image=self.image_with("linked", linked)), "E1703", "ld.so.preload")

    # --------------------------------------------------------------------------------------------------- seen from inside

    def inside(self, name, *words):
        """`podman exec` does not hand on the variables of devices, by which the simulated driver is found."""
        variables = json.loads(pathlib.Path("/run/cdi/ration-tenant.json").read_text())["containerEdits"]["env"]
        return self.engine.call("exec", *(word for each in variables for word in ("-e", each)), name, *words)

    def asked_inside(self, name, *words):
        done = self.inside(name, "/.ration/bin/ration", *words, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)["data"]

    def test_numbers_agree_inside_and_on_the_host(self):
        self.start_in("web", "ration-workload", "hold", "1GiB", options=PYTHON)
        self.start_in("other", "ration-workload", "hold", "512MiB", device="ration.sh/tenant=vision")
        held = GIB + 64 * MIB
        self.until(lambda: {name: row["used_bytes"] for name, row in self.rows().items()} == {"web": held, "other": 576 * MIB}, "both hold memory")
        told = self.inside("web", "python3", "-c", NVML)
        self.assertEqual(told.returncode, 0, told.stderr)
        nvml = json.loads(told.stdout)
        host = next(row for row in json.loads(self.ration("ps", "-o", "json").stdout)["data"] if row["workload"] == "web")
        self.assertEqual((nvml["total"], nvml["used"]), (host["limit_bytes"], host["used_bytes"]))
        self.assertEqual((nvml["total"], nvml["used"]), (4 * GIB, held))
        self.assertEqual(nvml["processes"], {"1": held}, "the pid as the container has it")
        row = next(row for row in self.asked_inside("web", "ps") if row["workload"] == "web")
        self.assertEqual((row["used_bytes"], row["limit_bytes"]), (host["used_bytes"], host["limit_bytes"]))
        amounts = lambda told: [(part["label"], part["bytes"]) for part in told[0]["rows"]]  # noqa: E731
        outside = json.loads(self.ration("explain", "web", "-o", "json").stdout)["data"]
        self.assertEqual(amounts(self.asked_inside("web", "explain", "web")), amounts(outside))
        self.assertEqual(sum(amount or 0 for _, amount in amounts(outside)), held)

    def test_the_daemon_is_reached_after_it_was_started_again(self):
        self.start_in("web", "ration-workload", "hold", "1GiB")
        self.until(lambda: [row["workload"] for row in self.asked_inside("web", "ps")] == ["web"], "it is seen inside")
        self.stop(signal.SIGKILL)
        self.start()
        self.until(lambda: self.inside("web", "/.ration/bin/ration", "ps", "web").returncode == 0, "it is seen again")
        self.assertEqual(self.inside("web", "ration-workload", "total").stdout.strip(), str(4 * GIB), "its book is where it was")

    def test_nobody_is_an_owner_inside(self):
        self.start_in("web", "ration-workload", "hold", "1GiB", options=PYTHON)
        self.start_in("other", "ration-workload", "hold", "512MiB", device="ration.sh/tenant=vision")
        self.until(lambda: len(self.rows()) == 2, "both are there")
        for words in (["set", "other", "--limit", "1GiB", "--yes"], ["set", "web", "--limit", "1GiB", "--yes"], ["trim", "other"], ["suspend", "other"]):
            done = self.inside("web", "/.ration/bin/ration", *words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn("E15", done.stderr, words)
        for method, path, body in (("POST", "/api/v1/workloads", {"folder": str(self.folder), "tenant": "vision", "book": "x"}),
                                   ("POST", "/api/v1/leases", {"bytes": GIB, "gpu": "0"}), ("PATCH", "/api/v1/tenants/nlp", {"limit": "15GiB"})):
            done = self.inside("web", "python3", "-c", REQUEST % (method, path, json.dumps(body)))
            self.assertRegex(done.stdout, "E1502|E1523", done.stderr)
        self.assertIn("E1502", self.inside("web", "/.ration/bin/ration", "explain", "other").stderr)
        self.assertNotIn('"command":"', self.inside("web", "python3", "-c", REQUEST % ("GET", "/api/v1/workloads/other", "")).stdout)
        self.assertEqual({name: row["limit_bytes"] for name, row in self.rows().items()}, {"web": 4 * GIB, "other": 2 * GIB})

    # ----------------------------------------------------------------------------------------------------- ration inject

    def inject(self, *arguments):
        return self.ration("inject", self.node, *arguments, env=self.engine.environment)

    def test_inject_makes_a_device_of_a_size(self):
        done = self.inject("podman", "--limit", "3GiB", "--", "run", "--rm", IMAGE, "ration-workload", "total")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(3 * GIB)), done.stderr)
        self.assertTrue(pathlib.Path("/run/cdi/ration-limit-3GiB-gpu0.json").exists())
        shown = self.inject("--dry-run", "podman", "--limit", "3GiB", "--", "run", "--rm", IMAGE, "ration-workload", "total")
        self.assertEqual(shown.stdout, f"podman run --device ration.sh/limit=3GiB-gpu0 --rm {IMAGE} ration-workload total\n")
        again = subprocess.run(shown.stdout, shell=True, env=dict(os.environ, **self.engine.environment), capture_output=True, text=True)
        self.assertEqual(again.stdout.strip(), str(3 * GIB), again.stderr)

    def test_inject_without_devices_needs_no_hook(self):
        done = self.inject("podman", "--without-cdi", "--limit", "3GiB", "--", "run", "--rm", IMAGE, "ration-workload", "total")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(3 * GIB)), done.stderr)
        self.refused(self.inject("podman", "--without-cdi", "--limit", "3GiB", "--", "run", "-d", IMAGE), "E1707", "-d")

    def test_inject_says_what_is_wrong(self):
        self.refused(self.inject("podman", "--limit", "20GiB", "--", "run", IMAGE), "E1104")
        self.refused(self.inject("podman", "--limit", "1GiB", "--tenant", "nlp", "--", "run", IMAGE), "E1707")
        self.refused(self.inject("podman", "--limit", "1GiB", "--", IMAGE), "E1707", "run")
        self.refused(self.inject("podman", "--limit", "1GiB"), "E1402")
        self.refused(self.inject("bwrap", "--limit", "1GiB", "--", "--bind", "/", "/", "true"), "E1707", "--")
        other = pathlib.Path("/run/cdi/other.json")
        other.write_text('{"cdiVersion":"0.5.0","kind":"ration.sh/limit","devices":[{"name":"1GiB-gpu0","containerEdits":{}}]}')
        self.addCleanup(other.unlink)
        self.refused(self.inject("podman", "--limit", "1GiB", "--", "run", IMAGE), "E1705", "other.json")

    def test_a_container_that_the_daemon_has_not_seen_does_not_start(self):
        bundle = self.folder / "bundle"
        bundle.mkdir()
        subprocess.run(["runc", "spec", "--bundle", bundle], check=True)
        spec = json.loads((bundle / "config.json").read_text())
        spec["root"]["path"] = str(self.root)
        spec["process"].update(args=["ration-workload", "total"], terminal=False)
        (bundle / "config.json").write_text(json.dumps(spec))

        def start(name, socket):
            self.assertEqual(self.ration("inject", self.node, "oci", bundle, "--tenant", "nlp", "--socket", socket).returncode, 0)
            return subprocess.run(["runc", "--root", self.folder / "runc", "run", "--bundle", bundle, name], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        done = start("seen", self.folder / "ration.sock")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(4 * GIB)), done.stderr)
        with LosesBooks(self.folder / "lost.sock", self.folder / "ration.sock") as daemon:
            self.refused(start("unseen", daemon.path), "E1508")
        self.assertEqual([path.name for path in (self.folder / "books").glob("unseen*")], [])

    @unittest.skipIf(shutil.which("bwrap") is None, "bubblewrap is not installed")
    def test_a_sandbox_without_a_daemon(self):
        self.stop()
        done = self.inject("bwrap", "--limit", "3GiB", "--", "--bind", self.root, "/", "--tmpfs", "/run", "--proc", "/proc", "--dev", "/dev", "--unshare-pid", "--",
                           "ration-workload", "total")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(3 * GIB)), done.stderr)


class UnderDocker(Claims, Case):
    engine_class = Docker

    def test_a_read_only_root_is_no_hindrance(self):
        # Docker makes every mount of a specification read-only then, also the simulated card; the book is mounted later.
        done = self.run_in("grep", "/.ration/book", "/proc/mounts", options=("--read-only",))
        self.assertIn(" rw,nosuid,nodev,noexec", done.stdout.splitlines()[-1])

    def test_inject_types_the_device(self):
        done = self.ration("inject", self.node, "docker", "--limit", "3GiB", "--", "run", "--rm", "--network=none", IMAGE, "ration-workload", "total",
                           env=self.engine.environment)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(3 * GIB)), done.stderr)
        old = self.ration("inject", self.node, "docker", "--without-cdi", "--limit", "3GiB", "--", "run", "--rm", "--network=none", IMAGE, "ration-workload",
                          "total", env=self.engine.environment)
        self.assertEqual((old.returncode, old.stdout.strip()), (0, str(3 * GIB)), old.stderr)


class UnderContainerd(Containers, Case):
    """By `ration inject oci` and `ctr run --config`."""
    engine_class = Containerd

    def run_in(self, *words, device="ration.sh/tenant=nlp", options=(), image=IMAGE, **more):
        name = options[options.index("--name") + 1] if "--name" in options else None
        return self.engine.run(self.inject_oci, device, self.roots.get(image, self.root), words, name, options)

    def start_in(self, name, *words, device="ration.sh/tenant=nlp", options=()):
        done = self.engine.run(self.inject_oci, device, self.root, words, name, options, detach=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(self.engine.remove, name)

    def setUp(self):
        super().setUp()
        self.roots = {}

    def inject_oci(self, *words):
        return self.ration(words[0], self.node, *words[1:])

    def image_with(self, name, change):
        image = super().image_with(name, change)
        self.roots[image] = self.folder / name
        return image

    def test_the_node_knows_it_by_its_name(self):
        self.start_in("web", "ration-workload", "hold", "1GiB")
        row = self.until(lambda: next((row for row in self.governed() if row["used_bytes"] > GIB), None), "it holds memory")
        self.assertEqual((row["workload"], row["tenant"], row["used_bytes"]), ("web", "nlp", GIB + 64 * MIB))
        labels = dict(entry.split("=", 1) for entry in row["labels"].split(","))
        self.assertEqual((labels["container"], labels["engine"]), ("web", "container"))

    def test_ids_that_begin_alike_are_of_different_containers(self):
        names = [f"training-of-vision-{number}" for number in range(3)]
        for name in names:
            self.start_in(name, "ration-workload", "hold", "1GiB")
        self.until(lambda: sorted(row["workload"] for row in self.governed() if row["used_bytes"]) == names, "each has a book of its own")

    def test_two_devices_are_one_too_many(self):
        file = self.engine.configuration(self.root, ["ration-workload", "total"])
        for tenant, limit in (("nlp", 4), ("vision", 2), ("nlp", 4)):  # the second replaces the first
            self.assertEqual(self.inject_oci("inject", "oci", file, "--tenant", tenant).returncode, 0)
        done = self.engine.call("run", "--rm", "--config", file, "two")
        self.assertEqual(done.stdout.strip(), str(4 * GIB), done.stderr)

    def test_a_device_that_is_not_there(self):
        self.refused(self.run_in("ration-workload", "total", device="ration.sh/tenant=nobody"), "nobody")
        self.refused(self.run_in("ration-workload", "total", device="ration.sh/gpu=0.2"), "0.2")

    def test_without_the_daemon_no_container_starts(self):
        file = self.engine.configuration(self.root, ["ration-workload", "total"])
        self.assertEqual(self.inject_oci("inject", "oci", file, "--tenant", "nlp").returncode, 0)
        self.stop()
        self.refused(self.engine.call("run", "--rm", "--config", file, "late"), "E1501")
        self.refused(self.run_in("ration-workload", "total"), "E1501")


class UnderKubernetesInterface(OfEngine, Case):
    """containerd's own reading of the devices: the interface by which Kubernetes asks it for pods (CRI)."""
    engine_class = Cri

    def pod(self, name, device, *words):
        pod, container, done = self.engine.pod(name, [device], IMAGE, *words)
        self.addCleanup(self.engine.crictl, "rmp", "--force", pod)
        return container, done

    def test_a_container_is_known_by_its_pod_and_leaves_nothing(self):
        container, done = self.pod("train-0", "ration.sh/tenant=nlp", "ration-workload", "hold", "1GiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        row = self.until(lambda: next((row for row in self.get("/api/v1/workloads") if row["used_bytes"] > GIB), None), "it holds memory")
        self.assertEqual((row["workload"], row["limit_bytes"], row["used_bytes"]), ("research.train-0.main", 4 * GIB, GIB + 64 * MIB))
        labels = dict(entry.split("=", 1) for entry in row["labels"].split(","))
        self.assertEqual((labels["container"], labels["engine"], labels["image"]), ("research/train-0/main", "kubernetes", IMAGE))
        self.assertIn('ration_workload_info{tenant="nlp",workload="research.train-0.main",namespace="research",pod="train-0",container="main"} 1\n',
                      urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}/metrics", headers={"Authorization": "Bearer " + (self.folder / "state/token").read_text().strip()})).read().decode())
        os.kill(self.engine.state(container)["info"]["pid"], signal.SIGKILL)
        self.until(lambda: self.get("/api/v1/workloads") == [] and all(process["bytes"] == 0 for process in self.truth()["processes"]), "nothing is left")

    def test_every_way_of_the_probe_is_held(self):
        container, done = self.pod("probe", "ration.sh/tenant=vision", "ration-workload", "probe", "64")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.engine.exit_code(container)
        self.assertGreaterEqual(len(self.engine.crictl("logs", container).stdout.splitlines()), 28)
        self.assertLessEqual(self.truth()["peak_bytes"], 2 * GIB)
        self.assertGreater(self.truth()["peak_bytes"], 2 * GIB - 128 * MIB)

    def test_without_the_daemon_no_container_starts(self):
        self.stop()
        _, done = self.pod("late", "ration.sh/tenant=nlp", "ration-workload", "total")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("E1501", done.stderr)


class RarelyLookedAt(OfEngine, Case):
    """The daemon does not see the container end while it runs."""
    engine_class = Podman
    pace = "60s"

    def kept(self):
        mounted = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
        return [path.name for path in (self.folder / "granted").iterdir()], [path for path in mounted if path.startswith(str(self.folder))]

    def test_a_daemon_that_ends_puts_away_what_has_ended(self):
        done = self.engine.call("run", "--rm", "--device", "ration.sh/tenant=nlp", IMAGE, "ration-workload", "total")
        self.assertEqual(done.stdout.strip(), str(4 * GIB), done.stderr)
        granted, mounted = self.kept()
        self.assertEqual((len(granted), len(mounted)), (1, 1))
        self.stop()
        self.assertEqual(self.kept(), ([], []))


class Folder(Case):
    configuration = '[containers]\ncdi = "/proc/none"\n[[tenant]]\nname = "nlp"\n'

    def test_a_folder_that_cannot_be_written_is_told_once(self):
        told = self.until(lambda: [event["text"] for event in self.events("daemon") if "E1704" in event["text"] or "/proc/none" in event["text"]], "it is told")
        self.assertEqual(len(told), 1)


if __name__ == "__main__":
    if Podman.missing() or not own_mounts():
        print("skipped: containers need root and " + ", ".join(Podman.missing() or ["a mount namespace"]))
        sys.exit(77)
    if "RATION_TEST_OWN_MOUNTS" not in os.environ:
        os.environ["RATION_TEST_OWN_MOUNTS"] = "1"
        in_own_mounts([sys.executable, *sys.argv])
    unittest.main()
