"""The exports whose readers are programs of their own: pprof, heaptrack, speedscope, PyTorch's memory viewer, ration itself. `./dev test exports` fetches them."""
import collections
import csv
import json
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import unittest

import jsonschema
from export_case import HISTORIES, SOURCE, Facts, HistoryCase, RecordingCase

READERS = SOURCE / "build/readers"
HEAPTRACK = READERS / "heaptrack/usr/bin/heaptrack_print"
SPEEDSCOPE = READERS / "speedscope/package/dist/release/file-format-schema.json"
VIEWER = next((SOURCE / "build/frameworks/torch/lib").glob("python3*/site-packages/torch/cuda/_memory_viz.py"), None)
GO = shutil.which("go")
BLOCKS = "memory that the program requested"


def printed_by(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Formats(HistoryCase):
    @unittest.skipUnless(GO, "needs Go")
    def test_pprof(self):
        def check(facts, file):
            def top(sample):
                text = printed_by(GO, "tool", "pprof", "-raw", file)
                kinds = re.search(r"Samples:\n(.*)\n", text)[1].split()
                number, = (index for index, kind in enumerate(kinds) if kind.startswith(sample + "/"))
                rows = re.findall(r"^ +([\d ]+): [\d ]+ *\n +place:\[(.*)\]$", text, re.M)
                self.assertEqual({place for _, place in rows}, {"GPU 0"})
                return sum(int(values.split()[number]) for values, _ in rows)
            self.assertEqual({sample: top(sample) for sample in ("peak_space", "peak_objects", "inuse_space", "inuse_objects", "alloc_objects")},
                             {"peak_space": facts.peak, "peak_objects": facts.blocks_at_peak, "inuse_space": facts.live, "inuse_objects": len(facts.blocks),
                              "alloc_objects": facts.allocations})
        self.for_each_history("pprof", check, ".pb.gz")

    @unittest.skipUnless(HEAPTRACK.exists(), "needs heaptrack")
    def test_heaptrack(self):
        def check(facts, file):
            def cost(kind):
                folded = file.with_name("folded")
                text = printed_by(HEAPTRACK, "-f", file, "--print-flamegraph", folded, "--flamegraph-cost-type", kind)
                return sum(int(line.rsplit(" ", 1)[1]) for line in folded.read_text().splitlines()), text
            self.assertEqual([cost(kind)[0] for kind in ("peak", "leaked", "allocations")], [facts.peak, facts.live, facts.allocations])
            self.assertIn(f"calls to allocation functions: {facts.allocations} ", cost("peak")[1])
        self.for_each_history("heaptrack", check)

    @unittest.skipUnless(SPEEDSCOPE.exists(), "needs speedscope")
    def test_speedscope(self):
        schema = json.loads(SPEEDSCOPE.read_text())

        def check(facts, file):
            profile = json.loads(file.read_text())
            jsonschema.validate(profile, schema)
            (place,) = profile["profiles"]
            self.assertEqual((sum(place["weights"]), place["endValue"], place["unit"]), (facts.peak, facts.peak, "bytes"))
            names = [[profile["shared"]["frames"][frame]["name"] for frame in stack] for stack in place["samples"]]
            self.assertEqual([stack[-1] for stack in names], [BLOCKS])
        self.for_each_history("speedscope", check)

    def test_snapshots_of_pytorch(self):
        def check(facts, file):
            snapshot = pickle.loads(file.read_bytes())
            self.assertEqual(sorted(block["size"] for segment in snapshot["segments"] for block in segment["blocks"]), facts.blocks)
            entries, host = snapshot["device_traces"]
            self.assertEqual(host, [])
            self.assertEqual(collections.Counter(entry["action"] for entry in entries),
                             {"segment_alloc": facts.allocations, "alloc": facts.allocations, **{action: facts.frees for action in ("free_requested", "free_completed", "segment_free")}})
            live, curve, segments = {}, [], {}
            for entry in entries:
                first, last = entry["addr"], entry["addr"] + entry["size"]
                if entry["action"] == "segment_alloc":
                    segments[first] = last
                elif entry["action"] == "alloc":
                    self.assertLessEqual(last, segments[first])
                    live[first] = entry["size"]
                elif entry["action"] == "free_completed":
                    self.assertEqual(live.pop(first), entry["size"])
                if entry["action"] in ("alloc", "free_completed"):
                    curve.append(sum(live.values()) if len(curve) % 100 == 0 or len(curve) == len(facts.curve) - 1 else None)
            self.assertEqual([held for held in curve if held is not None],
                             [held for index, (_, held) in enumerate(facts.curve) if index % 100 == 0 or index == len(facts.curve) - 1])
        self.for_each_history("memory_viz", check)

    @unittest.skipUnless(VIEWER, "needs PyTorch")
    def test_the_viewer_of_pytorch_takes_a_snapshot(self):
        facts, file = self.exported(HISTORIES[0], "memory_viz")
        python = SOURCE / "build/frameworks/torch/bin/python"
        text = printed_by(python, VIEWER, "trace", file)
        self.assertIn(f"{5 * facts.frees + 2 * (facts.allocations - facts.frees)} entries", text)
        text = printed_by(python, VIEWER, "stats", file)
        self.assertIn(f"segments: {len(facts.blocks)}\n", text)
        self.assertIn(f"total_allocated: {facts.live / 2 ** 30:.1f}GiB\ntotal_free: 0.0B\n", text)

    def test_csv_is_read_again(self):
        def check(facts, file):
            again = Facts(file)
            self.assertEqual((again.curve, again.peak, again.blocks), (facts.curve, facts.peak, facts.blocks))
            rows = list(csv.DictReader(file.open()))
            self.assertEqual([int(row["held"]) for row in rows], [held for _, held in facts.curve])
            self.assertEqual(sum(int(row["charged"]) for row in rows), facts.live)
            done = self.ration("export", file, "--format", "csv", "-o", "-")
            self.assertEqual(done.stdout, file.read_text())
        self.for_each_history("csv", check)


class Recorded(RecordingCase):
    """Peak and end of each place, as the reader of each format finds them."""

    @unittest.skipUnless(GO, "needs Go")
    def test_pprof(self):
        text = printed_by(GO, "tool", "pprof", "-raw", self.exported("pprof", ".pb.gz"))
        peaks, at_end = collections.Counter(), collections.Counter()
        for values, place in re.findall(r"^ +([\d ]+): [\d ]+ *\n +place:\[(.*)\]$", text, re.M):
            peaks[place] += int(values.split()[0])
            at_end[place] += int(values.split()[2])
        self.assertEqual((peaks, at_end), (self.peaks(), self.at_end()))

    @unittest.skipUnless(HEAPTRACK.exists(), "needs heaptrack")
    def test_heaptrack(self):
        """It knows one heap: that of all places together."""
        file, folded = self.exported("heaptrack"), self.folder / "folded"
        rows = list(csv.DictReader(self.exported("csv").open()))
        held, most, last = {}, 0, 0
        for row in rows:
            held["host" if row["account"] == "host" else row["device"]] = int(row["held"])
            most = max(most, sum(held.values()))
            if row["kind"] != "process ended":
                last = sum(held.values())
        for kind, expected in (("peak", most), ("leaked", last)):
            printed_by(HEAPTRACK, "-f", file, "--print-flamegraph", folded, "--flamegraph-cost-type", kind)
            self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in folded.read_text().splitlines()), expected)

    def test_speedscope(self):
        profiles = json.loads(self.exported("speedscope").read_text())["profiles"]
        self.assertEqual({each["name"].removesuffix(" at its peak"): sum(each["weights"]) for each in profiles}, self.peaks())

    def test_snapshots_of_pytorch(self):
        snapshot = pickle.loads(self.exported("memory_viz").read_bytes())
        peaks = []
        for entries in snapshot["device_traces"]:
            held = most = 0
            for entry in entries:
                held += {"alloc": 1, "free_completed": -1}.get(entry["action"], 0) * entry["size"]
                most = max(most, held)
            peaks.append(most)
        self.assertEqual(sorted(peak for peak in peaks if peak), sorted(self.peaks().values()))
        self.assertEqual(sum(segment["total_size"] for segment in snapshot["segments"]), sum(self.at_end().values()))

    def test_csv(self):
        held = collections.defaultdict(list)
        for row in csv.DictReader(self.exported("csv").open()):
            held["host" if row["account"] == "host" else row["device"]].append(int(row["held"]))
        self.assertEqual(sorted(max(values) for values in held.values() if max(values)), sorted(self.peaks().values()))


class Writing(HistoryCase):
    def test_a_place_that_cannot_be_written_is_said_in_one_line(self):
        for place, why in ((self.folder / "none.toml/x.csv", "Not a directory"), ("/proc/x.csv", "No such file or directory"), ("/dev/full", "No space left on device")):
            with self.subTest(place):
                (self.folder / "none.toml").write_text("")
                done = self.ration("export", HISTORIES[0], "--format", "csv", "-o", place)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertRegex(done.stderr, rf"\AE1405 ration: {place} cannot be written: {why}\.\n.+\n\Z")
        self.assertTrue(pathlib.Path("/dev/full").exists(), "a device is not removed")

    def test_what_is_no_recording_is_said(self):
        done = self.ration("export", "/no/such/file", "--format", "csv", "-o", self.folder / "x.csv")
        self.assertEqual(done.returncode, 2)
        self.assertTrue(done.stderr.startswith("E1811 "), done.stderr)
        self.assertFalse((self.folder / "x.csv").exists())

    def test_a_recording_is_not_overwritten_by_its_export(self):
        history = self.folder / "history.csv"
        shutil.copy(HISTORIES[0], history)
        done = self.ration("export", history, "--format", "csv")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertEqual(history.read_bytes(), HISTORIES[0].read_bytes())

    def test_standard_output_gets_the_file_alone(self):
        facts, file = self.exported(HISTORIES[0], "speedscope")
        done = self.ration("export", HISTORIES[0], "--format", "speedscope", "-o", "-")
        self.assertEqual(done.stdout, file.read_text())


if __name__ == "__main__":
    unittest.main()
