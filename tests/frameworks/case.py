"""What the tests of frameworks share: each case is a program run by that framework's own Python under `ration run --sim`."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", SOURCE / "build/release"))
RATION = str(BUILD / "bin/ration")
MiB, GiB = 1 << 20, 1 << 30
TORCH = ("import json, os, subprocess, sys\nimport torch\ndevice = 'cuda'\n"
         "def bytes_(n, device='cuda'): return torch.empty(n, dtype=torch.uint8, device=device)\n")
# A thread of autograd that still drops its graph while Python ends aborts the process, on any driver: pytorch/pytorch#190489. Such programs end before Python does.
LEAVE = "\nsys.stdout.flush()\nos._exit(0)\n"
CONTEXT = 104 * MiB  # what a context costs on the simulated T4
CODE = 2 * MiB  # a granule, for the images that TensorFlow loads at its first tensor
LIMITS = {"400MiB": 400 * MiB, "1GiB": GiB, "3GiB": 3 * GiB, "8GiB": 8 * GiB}


# Every program is recorded, and each recording held against its book: RATION_TEST_RECORD=1 ./dev test frameworks
RECORD = os.environ.get("RATION_TEST_RECORD") == "1"


class FrameworkCase(unittest.TestCase):
    python = sys.executable  # the tests are run by the framework's own
    prelude = ""
    recordings = 0

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="frameworks")
        self.addCleanup(self.folder.cleanup)
        own = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "LD_", "PYTHON"))}
        self.environment = dict(own, RATION_SIM_DIR=self.folder.name, RATION_RUNTIME_DIR=self.folder.name,
                                TF_CPP_MIN_LOG_LEVEL="2", BUILD=str(BUILD))

    def start(self, program, limit="4GiB", node="T4:16GiB", options=(), stderr=subprocess.PIPE, **variables):
        limits = ["--limit", limit] if limit else []
        if RECORD and not {"--record", "--summary"} & set(options):
            self.recordings += 1
            file = f"{self.folder.name}/{self.recordings}.rec"
            limits += ["--record", file, "--summary", f"json:{file}.json"]
            self.addCleanup(self.check_recording, file)
        program = textwrap.dedent(program)
        if "backward()" in program:
            program += LEAVE
        return subprocess.Popen(
            [RATION, "run", f"--sim={node}", *limits, *options, "--", str(self.python), "-c",
             self.prelude + program], env={**self.environment, **variables}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=self.folder.name)

    def check_recording(self, file):
        """The recording of a program that has ended: nothing is lost, and its peak is the book's."""
        if not os.path.exists(f"{file}.json") or os.path.exists(f"{file}.parts"):
            return  # it was refused, or left processes that still record
        told = subprocess.run([RATION, "inspect", file, "-o", "json"], env=self.environment, capture_output=True, text=True)
        self.assertEqual(told.returncode, 0, told.stderr)
        found, book = json.loads(told.stdout)["data"], json.loads(pathlib.Path(f"{file}.json").read_text())
        self.assertEqual((found["lost"], found["complete"]), (0, True))
        peaks = {place["gpu"]: place["bytes"] for place in found["held"] if place["gpu"] is not None and place["bytes"]}
        booked = {gpu: account["peak_bytes"] for gpu, account in enumerate(book["accounts"]) if account["peak_bytes"]}
        print(f"recorded {found['events']} events, peaks {peaks}, book {booked}", file=sys.stderr)
        self.assertEqual(peaks, booked)

    def printed_until(self, running, start, seconds=600):
        """The lines that it prints up to one that begins so. Fails where it ends before that, or takes longer."""
        timer = threading.Timer(seconds, running.kill)
        timer.start()
        printed = []
        try:
            for line in running.stdout:
                printed.append(line)
                if line.startswith(start):
                    return printed
        finally:
            timer.cancel()
        self.fail("".join(printed[-100:]))

    def run_program(self, program, code=0, **options):
        """What it printed last, read as JSON where it is that."""
        running = self.start(program, **options)
        try:
            out, err = running.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            running.kill()
            raise
        self.assertEqual(running.returncode, code, out + err[-4000:])
        last = out.strip().splitlines()[-1] if out.strip() else ""
        try:
            return json.loads(last)
        except ValueError:
            return out + err

    def imported(self, file):
        """What `ration inspect` says of the recording that `ration import` makes of a file that the program left."""
        for command in ["import", file, "-o", "imported.rec"], ["inspect", "imported.rec", "-o", "json"]:
            asked = subprocess.run([RATION, *command], env=self.environment, cwd=self.folder.name, capture_output=True, text=True)
            self.assertEqual(asked.returncode, 0, asked.stderr)
        return json.loads(asked.stdout)["data"]

    def compiled_functions_stay_within(self, limits, program, error):
        """Runs 100 compiled functions, which the program's `nth(n)` makes, under each limit; `error` ends them early. At its peak the device
        holds no more than the limit, and at rest `ration ps` says what it holds."""
        program = textwrap.dedent(program) + textwrap.dedent(f"""
            import os, sys
            done = 0
            try:
                while done < 100: nth(done); done += 1
            except {error} as denied: print(str(denied)[:500])
            print('rests after', done, flush=True)
            sys.stdin.readline()
            sys.stdout.flush()
            os._exit(0)
        """)
        for name, limit in limits.items():
            folder = tempfile.mkdtemp(dir=self.folder.name)
            self.environment.update(RATION_SIM_DIR=folder, RATION_RUNTIME_DIR=folder)
            with self.subTest(limit=name), self.start(program, limit=name, stderr=subprocess.STDOUT) as running:
                printed = self.printed_until(running, "rests after")
                asked = subprocess.run([RATION, "ps", "--sim=T4:16GiB", "-o", "json"], env=self.environment, check=True, capture_output=True, text=True)
                (workload,), (device,) = json.loads(asked.stdout)["data"], self.truth()["devices"]
                running.stdin.close()
                self.assertEqual(workload["used_bytes"], sum(process["bytes"] for process in device["processes"]), printed)
                self.assertLessEqual(device["peak_bytes"], limit, printed)
                if limit >= GiB:
                    self.assertEqual(printed[-1], "rests after 100\n", printed)

    def inside(self, node="T4:16GiB"):
        """The environment of a program that nobody starts with `ration run`: the simulated node alone, and the package."""
        asked = subprocess.run([RATION, "sim", "env", f"--sim={node}", "-o", "json", "--", str(self.python)], check=True,
                               env=self.environment, capture_output=True, text=True)
        return {**self.environment, **json.loads(asked.stdout)["data"]["sets"], "PYTHONPATH": str(SOURCE / "libration/python"),
                "RATION_LIBRARY": str(BUILD / "lib/libration.so.1")}

    def run_inside(self, program, node="T4:16GiB", code=0, **variables):
        """What it printed."""
        done = subprocess.run([str(self.python), "-c", textwrap.dedent(program)], env={**self.inside(node), **variables},
                              capture_output=True, text=True, cwd=self.folder.name, timeout=180)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr[-4000:])
        return done.stdout

    def truth(self, node="T4:16GiB"):
        """Bytes that each process really holds on device 0, and the device's peak."""
        done = subprocess.run([str(BUILD / "bin/ration-sim-truth"), "--json"], capture_output=True, text=True, check=True,
                              env={**self.environment, "RATION_SIM": node})
        return json.loads(done.stdout)
