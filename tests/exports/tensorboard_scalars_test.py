"""`ration run --tensorboard`: what TensorBoard's own readers find in the file, whoever was killed while it was written."""
import os
import pathlib
import re
import resource
import signal
import struct
import time
import unittest

from export_case import CONTEXT, GIB, NAMES, NODE, WORKLOAD, ExportCase, until
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.plugins.custom_scalar import layout_pb2


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


HELD = float32((3 * GIB + CONTEXT) / GIB)


class Scalars(ExportCase):
    def setUp(self):
        super().setUp()
        self.logs = self.folder / "logs"

    def runs(self):
        return sorted(str(path.parent.relative_to(self.logs)) for path in self.logs.rglob("events.out.tfevents.*"))

    def read(self, run):
        """The values of each tag, in the order of their steps."""
        found = EventAccumulator(str(self.logs / run), size_guidance={"scalars": 0, "tensors": 0}).Reload()
        return {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}

    def last(self, run):
        return {tag: values[-1][1] for tag, values in self.read(run).items()}

    def holding(self, *options, node=NODE):
        process = self.started(node, "--limit", "4GiB", "--name", "train", "--tensorboard", self.logs, *options, "--", WORKLOAD, "hold", "3GiB")
        line = process.stdout.readline()
        self.assertIn("holding", line, process.stderr.read() if not line else "")
        return process

    def writes(self, process):
        """How often it has asked the kernel to write."""
        return int(re.search(r"syscw: (\d+)", pathlib.Path(f"/proc/{process.pid}/io").read_text())[1])

    def see(self, run, tag, value):
        until(lambda: value in [each for _, each in self.read(run).get(tag, [])], f"{tag} is {value}")

    def test_a_running_program_is_seen_and_its_end(self):
        process = self.holding()
        (run,) = self.runs()
        self.assertRegex(run, r"^ration/train-\d+$")
        self.see(run, "gpu_0/used_gib", HELD)
        self.assertEqual(self.read(run)["gpu_0/used_gib"][0], (0, 0.0))
        self.assertEqual(self.ration("set", "train", NODE, "--limit", "5GiB", "--yes").returncode, 0)
        self.see(run, "gpu_0/limit_gib", 5.0)
        process.terminate()
        self.assertEqual(process.communicate()[1], "")
        read = self.read(run)
        self.assertEqual(self.last(run), {"gpu_0/used_gib": 0.0, "gpu_0/limit_gib": 5.0, "gpu_0/peak_gib": HELD, "gpu_0/denials": 0.0})
        for tag, values in read.items():
            steps = [step for step, _ in values]
            self.assertEqual(steps, sorted(set(steps)), f"{tag}: a step is there once, in order")
        self.assertEqual(len({len(values) for values in read.values()}), 1, "every moment has every value")

    def test_a_value_comes_every_second(self):
        process = self.holding()
        (run,) = self.runs()
        until(lambda: len(self.read(run)["gpu_0/used_gib"]) >= 4, "three seconds")
        process.terminate()
        process.wait()
        found = EventAccumulator(str(self.logs / run)).Reload()
        times = [event.wall_time for event in found.Scalars("gpu_0/used_gib")]
        self.assertLess(abs(times[0] - time.time()), 60)
        self.assertGreater(times[-1] - times[0], 2.5)
        steps = [event.step for event in found.Scalars("gpu_0/used_gib")]
        self.assertGreaterEqual(times[-1] - times[0] + 1.5, steps[-1], "a step is a second")

    def test_denials_are_counted(self):
        done = self.ration("run", NODE, "--limit", "1GiB", "--name", "greedy", "--tensorboard", self.logs, "--", WORKLOAD, "hold", "2GiB")
        self.assertNotEqual(done.returncode, 0)
        (run,) = self.runs()
        last = self.last(run)
        self.assertEqual((last["gpu_0/denials"], last["gpu_0/limit_gib"]), (1.0, 1.0))
        self.assertEqual(self.read(run)["gpu_0/denials"][0], (0, 0.0))

    def test_each_gpu_has_its_own_charts(self):
        process = self.holding("--gpu", "0,2", node="--sim=T4:16GiB:context=64MiB*3")
        (run,) = self.runs()
        process.terminate()
        process.wait()
        self.assertEqual(set(self.read(run)), {f"gpu_{gpu}/{name}" for gpu in (0, 2) for name in NAMES})
        last = self.last(run)
        self.assertEqual([last[f"gpu_{gpu}/peak_gib"] for gpu in (0, 2)], [HELD, 0.0])
        self.assertEqual([last[f"gpu_{gpu}/limit_gib"] for gpu in (0, 2)], [4.0, 4.0])

    def test_pinned_memory_is_shown_where_it_is_limited(self):
        process = self.holding("--host-limit", "1GiB")
        (run,) = self.runs()
        process.terminate()
        process.wait()
        self.assertEqual(self.last(run)["pinned_host/limit_gib"], 1.0)

    def test_custom_scalars_draw_a_gpu_as_one_chart(self):
        process = self.holding()
        (run,) = self.runs()
        process.terminate()
        process.wait()
        found = EventAccumulator(str(self.logs / run)).Reload()
        (tensor,) = found.Tensors("custom_scalars__config__")
        layout = layout_pb2.Layout.FromString(tensor.tensor_proto.string_val[0])
        (category,) = layout.category
        (chart,) = category.chart
        self.assertEqual((category.title, chart.title), ("GPU memory", "GPU 0, GiB"))
        self.assertEqual(list(chart.multiline.tag), ["gpu_0/used_gib", "gpu_0/limit_gib", "gpu_0/peak_gib"])
        self.assertEqual([tag for tag in chart.multiline.tag if tag not in found.Tags()["scalars"]], [])
        self.assertEqual(found.SummaryMetadata("custom_scalars__config__").plugin_data.plugin_name, "custom_scalars")

    def test_each_start_is_a_run_of_its_own(self):
        for _ in range(2):
            self.ration("run", NODE, "--limit", "1GiB", "--name", "train", "--tensorboard", self.logs, "--", "true")
        first, second = self.runs()
        self.assertNotEqual(first, second)

    def test_a_killed_program_has_its_end(self):
        process = self.holding()
        (run,) = self.runs()
        self.see(run, "gpu_0/used_gib", HELD)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        self.assertEqual(process.wait(60), 128 + signal.SIGKILL)
        self.assertEqual(self.last(run)["gpu_0/used_gib"], 0.0)

    def test_a_killed_ration_leaves_a_valid_file(self):
        process = self.holding()
        (run,) = self.runs()
        self.see(run, "gpu_0/used_gib", HELD)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        os.kill(int(children[0]), signal.SIGKILL)
        process.wait()
        (file,) = self.logs.rglob("events.out.tfevents.*")
        self.assertGreaterEqual(len(list(RawEventFileLoader(str(file)).Load())), 3)
        self.assertEqual(self.last(run)["gpu_0/used_gib"], HELD)

    def test_a_folder_that_cannot_be_written_is_said_before_the_start(self):
        (self.folder / "file").write_text("")
        for folder in (self.folder / "file", self.folder / "file/below", "/proc/logs", "gs://bucket/logs"):
            with self.subTest(folder):
                done = self.ration("run", NODE, "--limit", "1GiB", "--tensorboard", folder, "--", "echo", "started")
                self.assertEqual((done.returncode, done.stdout), (125, ""))
                self.assertRegex(done.stderr, rf"\AE1405 ration: no file for TensorBoard can be made in {folder}: .+\.\n.*--tensorboard /a/folder/of/yours\n\Z")
        self.assertEqual(self.ration("ps", NODE, "-o", "json").stdout.count('"workload"'), 0)

    def test_a_program_that_cannot_be_started_leaves_no_run(self):
        done = self.ration("run", NODE, "--limit", "1GiB", "--tensorboard", self.logs, "--", "/no/such/program")
        self.assertEqual(done.returncode, 127)
        self.assertEqual(list((self.logs / "ration").iterdir()), [])

    def test_a_dry_run_makes_nothing(self):
        self.assertEqual(self.ration("run", NODE, "--limit", "1GiB", "--tensorboard", self.logs, "--dry-run", "--", "true").returncode, 0)
        self.assertFalse(self.logs.exists())

    def test_a_file_that_cannot_grow_stays_valid_and_is_said_at_the_end(self):
        """A limit on the size of files ends a process that writes beyond it (SIGXFSZ), unless it takes care. A full disk is the same to it."""
        process = self.holding()
        (run,), (file,) = self.runs(), self.logs.rglob("events.out.tfevents.*")
        self.see(run, "gpu_0/used_gib", HELD)
        size, count = file.stat().st_size, len(self.read(run)["gpu_0/used_gib"])
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size + 200, hard))  # room for one and a half
        self.assertEqual(self.ration("set", "train", NODE, "--limit", "5GiB", "--yes").returncode, 0)
        before = self.writes(process)
        until(lambda: self.writes(process) > before + 2, "several writes have failed")
        self.assertLessEqual(file.stat().st_size, size + 200)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        self.see(run, "gpu_0/limit_gib", 5.0)
        until(lambda: len(self.read(run)["gpu_0/used_gib"]) > count + 1, "it goes on where there is room again")
        process.terminate()
        self.assertRegex(process.communicate()[1], rf"\Aration: \d+ of \d+ values for TensorBoard are missing in {file}: File too large\n\Z")
        self.assertEqual(process.returncode, 0)
        whole = sum(len(event) + 16 for event in RawEventFileLoader(str(file)).Load())
        self.assertEqual(whole, file.stat().st_size, "no torn record is left")


if __name__ == "__main__":
    unittest.main()
