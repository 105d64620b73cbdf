"""The export for TensorBoard's profile plugin, as its own converter reads it."""
import json
import unittest

from export_case import HISTORIES, HistoryCase, RecordingCase
from xprof.convert import raw_to_tool_data


def read(file):
    data, _ = raw_to_tool_data.xspace_to_tool_data([str(file)], "memory_profile", {})
    return json.loads(data)["memoryProfilePerAllocator"]


class Profile(HistoryCase):
    def test_the_page_has_peak_and_blocks(self):
        def check(facts, file):
            (name, profile), = read(file).items()
            self.assertEqual(name, "GPU 0")
            summary = profile["profileSummary"]
            self.assertEqual(int(summary["peakBytesUsageLifetime"]), facts.peak)
            self.assertEqual(int(summary["peakStats"]["peakBytesInUse"]), facts.peak)
            self.assertEqual(int(summary["peakStats"]["heapAllocatedBytes"]), facts.peak)
            self.assertIn((int(summary["peakStatsTimePs"]) // 10 ** 6, facts.peak), facts.curve)
            snapshots = profile["memoryProfileSnapshots"]
            active = [(int(snapshots[int(each["snapshotIndex"])]["activityMetadata"]["allocationBytes"]), int(each["numOccurrences"]))
                      for each in profile["activeAllocations"] if int(each["snapshotIndex"]) >= 0]
            self.assertEqual(sum(size * count for size, count in active), facts.peak)
            self.assertEqual(sum(count for _, count in active), facts.blocks_at_peak)
        self.for_each_history("xspace", check, ".xplane.pb")

    def test_a_folder_of_tensorboard_gets_a_run(self):
        done = self.ration("export", HISTORIES[0], "--format", "xspace", "-o", str(self.folder / "runs") + "/")
        self.assertEqual(done.returncode, 0, done.stderr)
        (file,) = (self.folder / "runs").rglob("*.xplane.pb")
        self.assertEqual(str(file.parent.relative_to(self.folder / "runs")), f"plugins/profile/{HISTORIES[0].stem}")


class ProfileOfARecording(RecordingCase):
    def test_each_place_has_its_peak_with_the_limit_as_capacity(self):
        profiles = read(self.exported("xspace", ".xplane.pb"))
        self.assertEqual({name: int(each["profileSummary"]["peakBytesUsageLifetime"]) for name, each in profiles.items()}, self.peaks())
        for name, profile in profiles.items():
            summary = profile["profileSummary"]
            if name.startswith("GPU"):
                self.assertEqual(int(summary["memoryCapacity"]), 4 << 30)
            contexts = sum(part["bytes"] for part in self.held[name]["parts"] if part["use"] == "contexts")
            self.assertEqual(int(summary["peakStats"]["peakBytesInUse"]), self.held[name]["bytes"])
            self.assertEqual(int(summary["peakStats"]["stackReservedBytes"]) + int(summary["peakStats"]["heapAllocatedBytes"]), self.held[name]["bytes"])
            self.assertEqual(int(summary["peakStats"]["stackReservedBytes"]), contexts)


if __name__ == "__main__":
    unittest.main()
