#!/usr/bin/env python3
"""What holds of every packing of every trace, against sums over all moments that a few lines make; and what bench/packing prints."""
import dataclasses
import io
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(os.environ["SOURCE"])
sys.path.insert(0, str(SOURCE / "bench/packing"))
import packing  # noqa: E402
import pod_trace  # noqa: E402
from pod_trace import GIB, Pod  # noqa: E402

PROGRAM = SOURCE / "bench/packing/packing.py"
GPU_BYTES = 16 * GIB


def any_trace(seed):
    """Short lives on few GPUs, so that ends and starts fall together."""
    chance = random.Random(seed)
    pods = []
    for number in range(chance.randint(1, 40)):
        start, length = chance.randint(0, 30), chance.randint(1, 12)
        use = tuple((float(after), chance.randint(0, 16) * GIB) for after in range(length))
        peak = max(size for _, size in use)
        pods.append(Pod(f"p{number}", float(start), float(start + length), peak, min(peak, chance.randint(0, 16) * GIB), use))
    return sorted(pods, key=lambda pod: (pod.start, pod.name))


def held(pod, moment):
    return next(size for begin, end, size in pod.until() if begin <= moment < end)


def alive(pods, moment):
    return [pod for pod in pods if pod.start <= moment < pod.end]


class EveryTrace(unittest.TestCase):
    def each(self):
        for seed in range(300):
            pods = any_trace(seed)
            yield seed, pods, sorted({pod.start for pod in pods}), packing.policies(pods, GPU_BYTES)

    def test_no_card_is_given_more_than_it_has(self):
        for seed, pods, moments, policies in self.each():
            for name, need in {"whole GPU per pod": lambda pod: GPU_BYTES, "peak as limit": lambda pod: pod.peak, "guarantee + burst": lambda pod: pod.guarantee}.items():
                place = policies[name][0].place
                self.assertEqual(set(place), set(pods))
                for moment in moments:
                    sums = {}
                    for pod in alive(pods, moment):
                        sums[place[pod]] = sums.get(place[pod], 0) + need(pod)
                    self.assertLessEqual(max(sums.values()), GPU_BYTES, (seed, name, moment))
                self.assertEqual({*place.values()}, {*range(policies[name][0].gpus)}, (seed, name))

    def test_each_policy_needs_no_more_cards_than_the_one_before_it_and_no_fewer_than_the_peaks_alone(self):
        for seed, pods, moments, policies in self.each():
            whole, peaks, bursts = (found.gpus for found, _ in policies.values())
            volume = max(-(-sum(pod.peak for pod in alive(pods, moment)) // GPU_BYTES) for moment in moments)
            self.assertEqual(packing.at_least(pods, GPU_BYTES), volume, seed)
            self.assertEqual(whole, max(len(alive(pods, moment)) for moment in moments), seed)
            self.assertTrue(whole >= peaks >= max(volume, 1) and peaks >= bursts, (seed, whole, peaks, bursts))

    def test_denials_are_the_moments_at_which_more_is_wanted_than_there_is(self):
        for seed, pods, _, policies in self.each():
            for _, (found, denials) in policies.items():
                place = found.place
                if not denials and found is policies["peak as limit"][0]:
                    self.assertEqual(packing.denials(found, GPU_BYTES), [], seed)
                    continue
                if found is policies["whole GPU per pod"][0]:
                    continue
                for moment in range(44):  # all changes are at whole seconds
                    for gpu in range(found.gpus):
                        here = [pod for pod in alive(pods, moment) if place[pod] == gpu]
                        beyond = sum(max(held(pod, moment), pod.guarantee) for pod in here) - GPU_BYTES
                        denial = next((denial for denial in denials if denial.gpu == gpu and denial.begin <= moment < denial.end), None)
                        self.assertEqual(denial is not None, beyond > 0, (seed, moment, gpu))
                        if denial:
                            self.assertGreaterEqual(denial.beyond, beyond)
                            self.assertTrue(denial.over)
                            self.assertTrue(denial.without_guarantees or sum(held(pod, moment) for pod in here) <= GPU_BYTES)
                            for name, over in denial.over.items():
                                self.assertGreater(over, 0)
                                self.assertIn(name, {pod.name for pod in pods if place[pod] == gpu})

    def test_guarantees_that_pack_worse_than_the_peaks_are_packed_as_those(self):
        lives = [(1, 3, 7, 6), (1, 3, 5, 3), (2, 6, 6, 6), (3, 8, 11, 11), (4, 11, 8, 8), (5, 7, 3, 3), (5, 10, 2, 2), (6, 12, 8, 8)]
        pods = [Pod(f"p{number}", float(start), float(end), peak * GIB, guarantee * GIB, ((0.0, peak * GIB),)) for number, (start, end, peak, guarantee) in enumerate(lives)]
        self.assertEqual({packing.pack(pods, GPU_BYTES, lambda pod: pod.guarantee, fit).gpus for fit in packing.FITS}, {3})
        self.assertEqual([found.gpus for found, _ in packing.policies(pods, GPU_BYTES).values()], [5, 2, 2])

    def test_without_bursts_a_guarantee_is_a_limit(self):
        for seed in range(50):
            pods = [Pod(pod.name, pod.start, pod.end, pod.peak, pod.peak, pod.use) for pod in any_trace(seed)]
            policies = packing.policies(pods, GPU_BYTES)
            self.assertEqual((policies["guarantee + burst"][0].gpus, policies["guarantee + burst"][1]), (policies["peak as limit"][0].gpus, []), seed)


class Traces(unittest.TestCase):
    def test_what_is_written_is_read(self):
        since = 1764077123.25  # as a clock has it
        pods = [dataclasses.replace(pod, start=since + pod.start, end=since + pod.end) for pod in pod_trace.invent(60, GPU_BYTES, 3)]
        file = io.StringIO()
        pod_trace.write(pods, file)
        read = pod_trace.read(io.StringIO(file.getvalue()), guaranteed=1)
        self.assertEqual([(pod.name, pod.start, pod.end, pod.peak, pod.use) for pod in read], [(pod.name, pod.start, pod.end, pod.peak, pod.use) for pod in pods])
        self.assertEqual([pod.guarantee for pod in read], [pod.peak for pod in read])

    def test_a_guarantee_suffices_for_its_share_of_the_time(self):
        use = ((0.0, 4), (6.0, 8), (9.0, 16))
        self.assertEqual([pod_trace.share_of_time(use, 10, share) for share in (0.5, 0.6, 0.61, 0.9, 0.91, 1)], [4, 4, 8, 8, 16, 16])

    def test_a_line_that_cannot_be_read_is_named(self):
        for row, why in {"p,0,0,1GiB,,,": "line 2: it ends after it starts", "p,0,9,,,,": "line 2: neither request", "p,0,9,much,,,": "line 2: 'much' is no size", "p,0,9,1,,,1:5": "line 2: it ends",
                         "p,0,9,1,4,,0:5": "line 2: it uses more than its peak"}.items():
            with self.assertRaisesRegex(pod_trace.Wrong, why):
                pod_trace.read(io.StringIO(",".join(pod_trace.COLUMNS) + "\n" + row + "\n"))

    def test_a_recorded_history_becomes_a_shape(self):
        shape = pod_trace.shape_of(io.StringIO("t_us,op,id,size,stream\n0,a,1,10,0\n1,a,2,30,0\n2,f,2,0,0\n3,f,1,0,0\n"), steps=2)
        self.assertEqual(shape, [1.0, 0.25])

    def test_alibabas_pods_ask_for_shares_of_a_card(self):
        rows = ("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
                "a,1,1,1,250,,LS,Running,5,90,10\nb,1,1,2,1000,,LS,Running,0,20,0\nnever,1,1,1,1000,,LS,Pending,0,9,\nno-gpu,1,1,0,0,,LS,Running,0,20,0\n")
        pods = {pod.name: (pod.start, pod.end, pod.peak) for pod in pod_trace.from_alibaba(io.StringIO(rows), GPU_BYTES)}
        self.assertEqual(pods, {"a.0": (10, 90, 4 * GIB), "b.0": (0, 20, GPU_BYTES), "b.1": (0, 20, GPU_BYTES)})

    def test_series_of_prometheus_are_pods(self):
        answer = {"data": {"result": [{"metric": {"__name__": "m", "namespace": "ml", "pod": "a"}, "values": [[100, "5"], [160, "5"], [220, "7"], [1000, "1"]]}]}}
        pods = [(pod.name, pod.start, pod.end, pod.peak, pod.use) for pod in pod_trace.from_prometheus(io.StringIO(json.dumps(answer)))]
        self.assertEqual(pods, [("ml.a", 100, 280, 7, ((0, 5), (120, 7))), ("ml.a#1", 1000, 1060, 1, ((0, 1),))])


class Program(unittest.TestCase):
    def run_with(self, *words, **options):
        return subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True, **options)

    def test_the_same_seed_is_the_same_trace_and_the_table_has_a_line_of_each_policy(self):
        made = [self.run_with("--invent", "50", "--seed", "7", "--gpu", "16GiB", "--shapes", str(SOURCE / "share/ration/traces/*.csv")).stdout for _ in range(2)]
        self.assertEqual(made[0], made[1])
        done = self.run_with("/dev/stdin", "--gpu", "16GiB", input=made[0])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(re.findall(r"^(whole GPU per pod|peak as limit|guarantee \+ burst) +\d+ +[\d.]+%", done.stdout, re.M), ["whole GPU per pod", "peak as limit", "guarantee + burst"])

    def test_the_page_shows_what_is_printed(self):
        page = (SOURCE / "docs/packing.md").read_text()
        shown = re.search(r"^\$ .* trace.csv --gpu 80GiB\n(.*?)^```", page, re.M | re.S)[1]
        trace = self.run_with("--invent", "200").stdout
        self.assertEqual(self.run_with("/dev/stdin", input=trace).stdout.splitlines()[:6], shown.splitlines())
        for share, gpus, denials in re.findall(r"^\| (0\.\d+) \| (\d+) \| (\d+) \|$", page, re.M):
            self.assertRegex(self.run_with("/dev/stdin", "--guaranteed", share, input=trace).stdout, rf"guarantee \+ burst +{gpus} +\S+ +{denials} ")

    def test_a_pod_that_no_card_holds_is_named(self):
        done = self.run_with("/dev/stdin", "--gpu", "4GiB", input=",".join(pod_trace.COLUMNS) + "\nlarge,0,9,5GiB,,,\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("large needs 5.0 GiB: more than a GPU of 4 GiB has", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
