#!/usr/bin/env python3
"""NVIDIA's own nvidia-smi, of each release that is here, on a simulated node whose driver is of that release: every view runs, and what it shows of
memory and of processes is the node's, or the limit's under `ration run`."""
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

from drivers import BUILD, DRIVERS, HERE, NONE_HERE, bare

RATION, WORKLOAD = BUILD / "bin/ration", BUILD / "bin/ration-workload"
MIB = 1 << 20
HELD, LIMIT = 1024, 4096  # MiB
MEMORY = ["--query-gpu=memory.total,memory.used,memory.free", "--format=csv,noheader,nounits"]
COMPUTING = ["--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
VIEWS = [[], ["-L"], ["-q"], ["-q", "-x"], MEMORY, COMPUTING, ["dmon", "-c", "1"], ["pmon", "-c", "1"], ["topo", "-m"]]
TABLE = "c4fe3e6cc98f6c4ea327ee696e12f7c4"
OF_TEXTS = 23  # the entry that takes structures which begin with a text
OF_THE_MACHINE = 535  # since this release the list of processes comes from NVML's private table, which shows the machine's
CUDA = {"470": "11.4"}  # of the others, a minor of 12


def smi_of(release):
    return next(DRIVERS[release].parent.glob("usr/lib/nvidia/*/nvidia-smi"))


def exact(release):
    """As the release calls itself: 550.163.01."""
    return next(DRIVERS[release].glob("libcuda.so.*.*")).name.removeprefix("libcuda.so.")


class Node(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def node(self, release, cards):
        """A description of these cards with a driver of exactly that release; its state is new."""
        driver = exact(release)
        self.environment = bare(BUILD / "sim") | {"RATION_SIM": f"{cards},driver={driver}", "RATION_RUNTIME_DIR": str(self.folder / "run"),
                                                  "RATION_SIM_DIR": str(self.folder / f"sim-{release}"), "HOME": str(self.folder)}
        pathlib.Path(self.environment["RATION_SIM_DIR"]).mkdir(exist_ok=True)
        return self.environment["RATION_SIM"]

    def run_words(self, *words, environment=None):
        done = subprocess.run(words, env=environment or self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), (words, done.stdout[-400:]))
        return done.stdout

    def hold(self, *launcher, size=HELD):
        """A workload that holds memory until the test ends; returns its number."""
        held = subprocess.Popen([*launcher, "sh", "-c", f'echo $$; exec "{WORKLOAD}" hold {size}MiB'], env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(held.stdout.close)
        self.addCleanup(held.wait)
        self.addCleanup(held.terminate)
        pid = int(held.stdout.readline())
        self.assertIn("holding", held.stdout.readline())
        return pid

    @contextlib.contextmanager
    def beside_a_workload(self, release, *options):
        """Yields the environment of a program beside a workload under a limit, that workload's number, and what `ration ps` lists."""
        script = ('"$0" hold %dMiB > "$1" & held=$!; until grep -qs holding "$1"; do :; done; env -0 > "$2"; echo $held; read go; kill $held; wait' % HELD)
        node, told = self.environment["RATION_SIM"], [str(self.folder / f"{name}-{release}") for name in ("told", "environment")]
        lender = subprocess.Popen([RATION, "run", f"--sim={node}", "--limit", f"{LIMIT}MiB", *options, "--", "sh", "-c", script, WORKLOAD, *told],
                                  env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            pid = int(lender.stdout.readline())
            inside = dict(entry.split("=", 1) for entry in pathlib.Path(told[1]).read_text().split("\0") if entry)
            yield inside, pid, json.loads(self.run_words(RATION, "ps", f"--sim={node}", "-o", "json"))
        finally:
            lender.communicate("\n", timeout=30)

    def governed(self, release, *options):
        """What each view shows to a program beside a workload under a limit, that workload's number, and its row of `ration ps`."""
        with self.beside_a_workload(release, *options) as (inside, pid, listed):
            shown = {" ".join(view): self.run_words(smi_of(release), *view, environment=inside) for view in VIEWS}
            return shown, pid, next(row for row in listed["data"] if any(one["pid"] == pid for one in row["processes"]))

    def memory_in(self, shown):
        """MiB of each card: total, used, free, as a query, as XML and as the table have it."""
        rows = [tuple(map(int, line.split(", "))) for line in shown[" ".join(MEMORY)].splitlines()]
        tree = xml.etree.ElementTree.fromstring(shown["-q -x"])
        for usage, row in zip(tree.findall("gpu/fb_memory_usage"), rows, strict=True):
            self.assertEqual(tuple(int(usage.find(name).text.split()[0]) for name in ("total", "used", "free")), row)
        table = [(int(total), int(used)) for used, total in re.findall(r"\| +(\d+)MiB / +(\d+)MiB \|", shown[""])]
        self.assertEqual(table, [row[:2] for row in rows])
        return rows


class OnANode(Node):
    def test_each_view_shows_the_nodes_memory_and_processes(self):
        for release in HERE:
            with self.subTest(release=release):
                self.node(release, "T4:16GiB")
                idle = {" ".join(view): self.run_words(smi_of(release), *view) for view in VIEWS}
                self.assertEqual(self.memory_in(idle), [(16384, 0, 16384)])
                pid = self.hold()
                shown = {" ".join(view): self.run_words(smi_of(release), *view) for view in VIEWS}
                used = HELD + 104  # and a context
                self.assertEqual(self.memory_in(shown), [(16384, used, 16384 - used)])
                self.assertEqual(shown[" ".join(COMPUTING)], f"{pid}, {used}\n")
                self.assertRegex(shown["pmon -c 1"], rf"0 +{pid} +C ")
                self.assertRegex(shown["-q"], rf"Process ID +: {pid}\n +Type +: C\n +Name +: {WORKLOAD}\n +Used GPU Memory +: {used} MiB")
                self.assertRegex(shown["-L"], r"^GPU 0: Tesla T4 \(UUID: GPU-\S+\)\n$")
                self.assertRegex(shown[""], rf"Driver Version: {re.escape(exact(release))} +CUDA Version: {CUDA.get(release, '12.')}")

    def test_each_field_can_be_asked_for(self):
        for release in HERE:
            with self.subTest(release=release):
                self.node(release, "T4:16GiB")
                smi = smi_of(release)
                # The explanation of compute_mode lists its values in quotes, too.
                listed = re.findall(r'^"([a-z_]\S*)"', self.run_words(smi, "--help-query-gpu"), re.M)
                self.assertGreater(len(listed), 100)
                answers = {field: self.run_words(smi, f"--query-gpu={field}", "--format=csv,noheader,nounits").strip() for field in listed}
                self.assertEqual([field for field, answer in answers.items() if not answer or "Unknown" in answer or "Insufficient" in answer], [])
                for field, value in {"power.limit": "70.00", "enforced.power.limit": "70.00", "clocks.max.sm": "1590", "pcie.link.gen.max": "3", "pstate": "P0",
                                     "ecc.mode.current": "Enabled", "pci.device_id": "0x1EB810DE", "persistence_mode": "Enabled", "fan.speed": "[N/A]",
                                     "driver_version": exact(release), "mig.mode.current": "[N/A]"}.items():
                    self.assertEqual(answers[field], value, field)

    def test_the_clocks_that_may_be_set_are_the_cards(self):
        for release in HERE:
            with self.subTest(release=release):
                self.node(release, "T4:16GiB")
                listed = self.run_words(smi_of(release), "--query-supported-clocks=mem,gr", "--format=csv,noheader,nounits").splitlines()
                self.assertEqual(listed, [f"{memory}, {clock}" for memory, highest in ((5001, 1590), (405, 645)) for clock in range(highest, 299, -15)])

    def test_each_instance_of_a_card_is_shown_with_its_own_memory(self):
        for release in HERE:
            with self.subTest(release=release):
                self.node(release, "A100-40:mig=3g.20gb+2g.10gb")
                pid = self.hold()
                listed = self.run_words(smi_of(release), "-L")
                self.assertEqual(re.findall(r"MIG (\S+) +Device +(\d): \(UUID: MIG-", listed), [("3g.20gb", "0"), ("2g.10gb", "1")])
                table = self.run_words(smi_of(release))
                self.assertEqual(re.findall(r"\| +0 +(\d) +0 +(\d) +\| +(\d+)MiB / (\d+)MiB", table.replace(" /  ", " / ")),
                                 [("1", "0", "1448", "20166"), ("2", "1", "0", "10082")])
                self.assertRegex(table, rf"\| +0 +1 +0 +{pid} +C .* 1448MiB \|")

    def test_two_cards_are_as_far_apart_as_their_numa_nodes(self):
        for numa, said in ((0, "PHB"), (1, "SYS")):
            description = self.folder / f"{numa}.toml"
            for release in HERE:
                with self.subTest(said, release=release):
                    description.write_text(f'driver = "{exact(release)}"\n[[device]]\nmodel = "T4"\nnuma = 0\n[[device]]\nmodel = "T4"\nnuma = {numa}\n')
                    self.environment["RATION_SIM"] = str(description) if self.node(release, "T4") else ""
                    rows = [line.split() for line in self.run_words(smi_of(release), "topo", "-m").splitlines()[1:3]]
                    self.assertEqual([row[1:3] for row in rows], [["X", said], [said, "X"]])


class UnderALimit(Node):
    def assert_memory(self, shown, row):
        used = row["used_bytes"] // MIB
        self.assertEqual((used, row["limit_bytes"] // MIB), (HELD + row["context_bytes"] // MIB, LIMIT))
        self.assertEqual(self.memory_in(shown)[0], (LIMIT, used, LIMIT - used))
        return used

    def test_memory_is_the_limits_and_processes_are_the_workloads_where_public_functions_list_them(self):
        for release in HERE:
            with self.subTest(release=release):
                self.node(release, "T4:16GiB")
                neighbour = self.hold(size=512)
                shown, pid, row = self.governed(release)
                used = self.assert_memory(shown, row)
                listed = [f"{pid}, {used}"]
                if int(release) >= OF_THE_MACHINE:
                    listed.insert(0, f"{neighbour}, {512 + 104}")
                self.assertEqual(sorted(shown[" ".join(COMPUTING)].splitlines()), sorted(listed))

    def test_each_field_but_memorys_is_the_nodes(self):
        for release in HERE:
            with self.subTest(release=release):
                self.node(release, "T4:16GiB")
                smi = smi_of(release)
                fields = [field for field in re.findall(r'^"([a-z_]\S*)"', self.run_words(smi, "--help-query-gpu"), re.M) if field != "timestamp"]
                words = [smi, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
                with self.beside_a_workload(release) as (inside, _, listed):
                    governed, plain = (dict(zip(fields, self.run_words(*words, environment=environment).strip().split(", "), strict=True))
                                       for environment in (inside, self.environment))
                used = listed["data"][0]["used_bytes"] // MIB
                self.assertEqual({field: (plain[field], answer) for field, answer in governed.items() if answer != plain[field]},
                                 {"memory.total": ("16384", f"{LIMIT}"), "memory.free": (f"{16384 - used}", f"{LIMIT - used}")})

    def test_nothing_is_free_on_a_card_that_was_not_granted(self):
        for release in HERE:
            with self.subTest(release=release):
                self.node(release, "T4:16GiB*2")
                shown, _, row = self.governed(release, "--gpu", "0")
                self.assert_memory(shown, row)
                self.assertEqual(self.memory_in(shown)[1], (16384, 16384, 0))

    def test_an_instance_shows_the_limit_and_its_card_the_process(self):
        for release in HERE:
            with self.subTest(release=release):
                self.node(release, "A100-40:mig=3g.20gb+2g.10gb")
                shown, pid, row = self.governed(release, "--gpu", "0.0")
                used = row["used_bytes"] // MIB
                self.assertRegex(shown[""], rf"\| +0 +1 +0 +0 +\| +{used}MiB / +{LIMIT}MiB")
                self.assertRegex(shown[""], rf"\| +0 +1 +0 +{pid} +C .* {used}MiB \|")
                self.assertEqual(shown[" ".join(COMPUTING)], f"{pid}, {used}\n")

    def test_run_finds_it_on_the_path_and_says_whose_it_is_where_there_is_none(self):
        for release in HERE:
            with self.subTest(release=release):
                node = self.node(release, "T4:16GiB")
                found = self.environment | {"PATH": f"{smi_of(release).parent}:{self.environment['PATH']}"}
                said = subprocess.run([RATION, "run", f"--sim={node}", "--limit", "1GiB", "--", "nvidia-smi"], env=found, capture_output=True, text=True, timeout=60)
                self.assertEqual(said.returncode, 0, said.stderr)
                self.assertRegex(said.stdout, r" 0MiB / +1024MiB ")
        none = subprocess.run([RATION, "run", "--sim=T4", "--limit", "1GiB", "--", "nvidia-smi"], env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(none.returncode, 127)
        self.assertIn("E1419 ration: 'nvidia-smi' was not found.", none.stderr)
        self.assertIn("apt install nvidia-smi", none.stderr)


class PrivateTable(Node):
    def test_each_entry_answers_whatever_it_is_asked(self):
        """Also one that no release here calls. A word of 8 bytes is the table's size, each other one a function."""
        self.node(HERE[0], "T4:16GiB*2")
        script = f"""
import ctypes
nvml = ctypes.CDLL("libnvidia-ml.so.1")
name, table, device, room = bytes.fromhex("{TABLE}"), ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_void_p(), ctypes.create_string_buffer(1 << 16)
assert nvml.nvmlInternalGetExportTable(ctypes.byref(table), bytes(16)) == 3 and nvml.nvmlInternalGetExportTable(None, name) == 2
assert nvml.nvmlInternalGetExportTable(ctypes.byref(table), name) == 0 and nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device)) == 0
told = set()
for slot in range(1, table[0] // 8):
    entry = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(table[slot])
    told |= {{entry(None, None, None, None), entry(ctypes.addressof(room), ctypes.addressof(room), ctypes.addressof(room), None)}}
    for first in (device, 77) if slot != {OF_TEXTS} else ():
        told |= {{entry(first, None, None, None), entry(first, ctypes.addressof(room), None, None), entry(first, ctypes.addressof(room), ctypes.addressof(room), None)}}
print(sorted(told))
"""
        self.assertEqual(self.run_words(sys.executable, "-c", script), "[0, 2, 3, 6]\n")


if __name__ == "__main__":
    if not HERE:
        print(NONE_HERE)
        sys.exit(77)
    unittest.main(verbosity=2)
