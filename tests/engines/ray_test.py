"""Actors and tasks of a Ray cluster of two nodes under the limits of their fractions. Run by the Python that has Ray.

Each node has a simulated machine of its own: the head one card of 16 GiB and a rationd, the second two cards.
"""
import ctypes
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

from engine_case import GIB, PATIENCE, SOURCE, until
from ray_case import Machine

import ray
import ration.ray
from ray.cluster_utils import Cluster
from ray.util.state import list_actors

HEAD, SECOND = Machine("head"), Machine("second", "T4:16GiB,A100-40")
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY


class Taker:
    """An actor that takes memory of its GPU by the driver."""

    def take(self, gib):
        self.cuda, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
        return (self.cuda.cuInit(0) or self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
                or self.cuda.cuCtxSetCurrent(context)
                or self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(gib * (1 << 30)))))

    def total(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.take(0.001)
        self.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return total.value / (1 << 30)

    def who(self):
        context = ray.get_runtime_context()
        return {"actor": context.get_actor_id(), "node": context.get_node_id(), "job": context.get_job_id(), "pid": os.getpid()}


def at(where, **limit):
    return ration.ray.remote(resources={where: 0.001}, **limit)(Taker)


def setUpModule():
    global cluster
    HEAD.start_daemon()
    common = {"num_cpus": 8, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args=dict(
        common, num_gpus=1, resources={"head": 1, "gpu_memory_gib": 32}, include_dashboard=True, dashboard_port=0,
        env_vars=HEAD.variables()))
    cluster.add_node(**common, num_gpus=2, resources={"second": 1, "gpu_memory_gib": 32}, env_vars=SECOND.variables())
    ray.init(address=cluster.address, log_to_driver=False)


def tearDownModule():
    ray.shutdown()
    cluster.shutdown()
    HEAD.stop_daemon()
    HEAD.until_empty()
    SECOND.until_empty()


class OnRay(unittest.TestCase):
    def tearDown(self):
        for actor in list_actors(address=cluster.address, filters=[("state", "!=", "DEAD")], limit=1000):
            handle = self.handles.pop(actor.actor_id, None)
            if handle is not None:
                ray.kill(handle)
        HEAD.until_empty()
        SECOND.until_empty()

    handles = {}

    def node(self, name, machine="T4:16GiB", **more):
        """One more, of one GPU, with the resource `name`, for this test."""
        machine = Machine(name, machine)
        node = cluster.add_node(num_cpus=2, num_gpus=1, resources={name: 1}, object_store_memory=80 << 20,
                                env_vars={**machine.variables(), **more})
        self.addCleanup(cluster.remove_node, node)
        return machine, node

    def start(self, actor_class, **options):
        actor = actor_class.options(**options).remote()
        self.handles[actor._actor_id.hex()] = actor
        return actor

    def get(self, *answers):
        answers = ray.get(list(answers), timeout=PATIENCE)
        return answers[0] if len(answers) == 1 else answers

    def not_started(self, actor):
        """The error of an actor that never ran."""
        with self.assertRaises(ray.exceptions.RayActorError) as caught:
            self.get(actor.who.remote())
        self.assertIn("never ran", str(caught.exception))
        self.assertIn("not started without its limit", str(caught.exception))
        return str(caught.exception)

    # --------------------------------------------------------------------------------------------------------- the limits

    def test_one_of_four_quarters_asks_for_too_much_and_its_neighbours_finish(self):
        actors = [self.start(at("head", num_gpus=0.25)) for _ in range(4)]
        self.assertEqual(self.get(*(actor.take.remote(gib) for actor, gib in zip(actors, (3.5, 3.5, 3.5, 6)))),
                         [0, 0, 0, OUT_OF_MEMORY])
        self.assertEqual(self.get(*(actor.take.remote(0.25) for actor in actors)), [0, 0, 0, 0])
        truth = HEAD.truth()
        self.assertLessEqual(truth["peak_bytes"], 16 * GIB)
        self.assertEqual(len(HEAD.workloads()), 4)
        self.assertEqual({row["limit_bytes"] for row in HEAD.workloads()}, {4 * GIB})
        self.assertEqual(sum(row["denials"] for row in HEAD.workloads()), 1)

    def test_what_they_hold_together_is_never_more_than_the_card(self):
        actors = [self.start(at("head", num_gpus=0.25)) for _ in range(4)]

        def fill(actor):
            return [actor.take.remote(0.5) for _ in range(12)]  # 6 GiB
        given = [ray.get(answers, timeout=PATIENCE).count(0) for answers in [fill(actor) for actor in actors]]
        self.assertEqual(given, [7, 7, 7, 7])
        self.assertLessEqual(HEAD.truth()["peak_bytes"], 16 * GIB)

    def test_page_its_program_starts_actors_under_limits(self):
        page = (SOURCE / "docs/scenarios/ray.md").read_text()
        names = {"__name__": "page"}
        exec(compile(re.search(r"^```python\n(.*?)^```", page, re.M | re.S)[1], "page.py", "exec"), names)
        self.handles.update({actor._actor_id.hex(): actor for actor in names["actors"]})
        self.assertEqual(self.get(*(actor.step.remote() for actor in names["actors"])), [None] * 4)
        rows = [row for machine in (HEAD, SECOND) for row in machine.told("ration", "ps", "-o", "json")["data"] if "Trainer" in row["workload"]]
        self.assertGreaterEqual(len(rows), 4)
        cards = (16, 39.38)  # GiB that the driver tells of a T4 and of an A100-40
        self.assertLessEqual({row["limit_bytes"] // GIB for row in rows}, {int(card * share) for card in cards for share in (0.25, 0.5)})
        for line in re.findall(r"^\$ (.+)$", page, re.M):
            told = "".join(machine.typed(line, RAY_ADDRESS=cluster.address) for machine in (HEAD, SECOND))
            self.assertIn("Trainer", told, line)

    def test_memory_as_a_resource(self):
        actor = self.start(at("head", gpu_memory_gib=1.5))
        self.assertEqual(self.get(actor.take.remote(1.6)), OUT_OF_MEMORY)
        self.assertEqual(self.get(actor.take.remote(1.2)), 0)
        self.assertEqual(ray.available_resources()["gpu_memory_gib"], 64 - 1.5)

    def test_the_card_that_ray_granted_on_another_node(self):
        # Two of 0.6 do not fit on one card: one has the T4 (16 GiB), one the A100 (39.4 GiB).
        actors = [self.start(at("second", num_gpus=0.6)) for _ in range(2)]
        totals = sorted(self.get(*(actor.total.remote() for actor in actors)))
        self.assertAlmostEqual(totals[0], 0.6 * 16, places=1)
        self.assertAlmostEqual(totals[1], 0.6 * 39.4, places=1)
        self.assertEqual(HEAD.workloads(), [])
        self.assertEqual(sorted(row["gpu"] for row in SECOND.workloads()), [0, 1])

    def test_a_node_that_was_given_the_second_of_its_cards(self):
        self.node("half", "T4:16GiB,A100-40", CUDA_VISIBLE_DEVICES="1")
        self.assertAlmostEqual(self.get(self.start(at("half", num_gpus=0.5)).total.remote()), 0.5 * 39.4, places=1)

    def test_a_task(self):
        def grab():
            return Taker().take(5)
        self.assertEqual(self.get(ration.ray.remote(num_gpus=0.25, resources={"head": 0.001})(grab).remote()), OUT_OF_MEMORY)

    def test_an_actor_killed_with_kill_9_leaves_nothing(self):
        actor = self.start(at("head", num_gpus=0.5))
        self.assertEqual(self.get(actor.take.remote(6)), 0)
        self.assertGreater(HEAD.workloads()[0]["used_bytes"], 6 * GIB)
        os.kill(self.get(actor.who.remote())["pid"], signal.SIGKILL)
        HEAD.until_empty()
        self.assertEqual(HEAD.truth()["free_bytes"], 16 * GIB)
        self.assertEqual(self.get(self.start(at("head", num_gpus=1)).take.remote(15)), 0)

    def test_a_node_that_goes_leaves_nothing(self):
        machine, node = self.node("third")
        actor = self.start(at("third", num_gpus=0.5))
        self.assertEqual(self.get(actor.take.remote(6)), 0)
        self.assertEqual(len(machine.workloads()), 1)
        raylet = node.all_processes["raylet"][0].process
        raylet.kill()
        raylet.wait()  # a worker takes one that nobody has waited for for alive
        machine.until_empty()

    # ---------------------------------------------------------------------------------------------------------- the names

    def test_ray_and_ration_name_the_same_actors(self):
        actors = [self.start(at(where, num_gpus=0.25, tenant="nlp")) for where in ("head", "head", "second")]
        self.get(*(actor.take.remote(1) for actor in actors))
        of_ray = {(actor.pid, actor.node_id, actor.job_id, actor.class_name)
                  for actor in list_actors(address=cluster.address, filters=[("state", "=", "ALIVE")])}
        of_ration = set()
        for row in [*HEAD.workloads(), *SECOND.workloads()]:
            labels = dict(label.split("=") for label in row["labels"].split(","))
            name, _, worker = row["workload"].rpartition("-")
            self.assertTrue(labels["ray_worker"].startswith(worker) and len(worker) == 8, row)
            self.assertEqual(row["tenant"], "nlp")
            of_ration.add((row["processes"][0]["pid"], labels["ray_node"], labels["ray_job"], name))
        self.assertEqual(of_ration, of_ray)
        self.assertEqual(len(of_ray), 3)
        self.assertEqual({(who["pid"], who["node"], who["job"]) for who in self.get(*(actor.who.remote() for actor in actors))},
                         {one[:3] for one in of_ray})

    # ------------------------------------------------------------------------------------------------------- never without

    def test_no_worker_without_the_daemon_that_was_asked_for(self):
        asked = ["--socket", str(HEAD.folder / "ration.sock")]
        self.assertEqual(self.get(self.start(at("head", num_gpus=0.25, run=asked)).take.remote(1)), 0)
        HEAD.stop_daemon()
        try:
            self.assertIn("E1501", self.not_started(self.start(at("head", num_gpus=0.25, run=asked))))
        finally:
            HEAD.start_daemon()

    def test_a_limit_larger_than_the_card_says_so(self):
        self.assertRegex(self.not_started(self.start(at("head", gpu_memory_gib=20))), r"E1104 ration: .*20480MiB is more than GPU 0 has \(16.0 GiB\)")

    def test_memory_alone_chooses_no_card_among_several(self):
        self.assertIn("this node has 2 GPUs", self.not_started(self.start(at("second", gpu_memory_gib=4))))
        self.assertEqual(self.get(self.start(at("second", num_gpus=0.5, gpu_memory_gib=4)).take.remote(3)), 0)

    def test_a_worker_that_does_not_start_ends(self):
        error = self.not_started(self.start(at("head", gpu_memory_gib=20)))
        pid = int(error.split("pid: ")[1].split()[0])
        until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "the end of the worker that ran nothing")

    def test_no_worker_where_ration_is_not(self):
        path = ":".join(each for each in os.environ["PATH"].split(":") if not pathlib.Path(each, "ration").exists())
        self.node("without", PATH=path)
        self.assertIn("ration is not installed on this node", self.not_started(at("without", num_gpus=0.5).remote()))

    def test_wrong_sizes(self):
        for wrong in ({}, {"num_gpus": 0}, {"num_gpus": -1}, {"num_gpus": 1.5}, {"gpu_memory_gib": 0}, {"gpu_memory_gib": float("nan")},
                      {"num_gpus": 0.5, "runtime_env": {"py_executable": "python"}}):
            with self.subTest(wrong), self.assertRaises(ValueError):
                ration.ray.limited(**wrong)


class Import(unittest.TestCase):
    def inside(self, program):
        """On the simulated machine, as a driver on a machine with a GPU."""
        sets = HEAD.told("ration", "sim", "env", "-o", "json", "--", sys.executable)["data"]["sets"]
        done = subprocess.run([sys.executable, "-c", program], env={**os.environ, **HEAD.variables(), **sets}, capture_output=True,
                              text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_leaves_the_program_that_starts_ray_out_of_every_workload(self):
        self.inside("import os, subprocess\nbefore = dict(os.environ)\nimport ration.ray, sys\n"
                    "assert os.environ == before, os.environ\nassert 'ray' not in sys.modules\nassert not ration.is_governed()\n"
                    "subprocess.run(['ration', 'run', '--limit', '1GiB', '--', 'true'], check=True)")

    def test_without_ray_says_what_to_install(self):
        self.assertIn("pip install ray", self.inside(
            "import sys\nsys.modules['ray'] = None\nimport ration.ray\n"
            "try: ration.ray.remote(num_gpus=0.5)\nexcept ImportError as error: print(error)"))


if __name__ == "__main__":
    unittest.main()
